"""Single terms of the memory model: states, pipeline stages, adapters, experts, offload, and figures."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.units import GIB
from recipes.job.candidate import Degrees
from recipes.job.models.counts import parameter_count
from recipes.job.models.names import find_model
from recipes.predict.memory.peak import figure_bytes, memory_of
from recipes.predict.memory.stages import in_flight, stages_of
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import transformer_job
from tests.support.clusters import case, figure, h100_cluster

LLAMA = find_model("llama-2-7b")


def bill(
    stack="torch",
    model=LLAMA,
    *,
    ranks=1,
    workload=None,
    candidate=None,
    limit_bytes=1e15,
    architecture="",
    **choices,
):
    """Return the memory of one way to run the model, with fields of workload and candidate replaced."""
    first, second = case(model, ranks=ranks, **choices)
    return memory_of(
        transformer_job(
            msgspec.structs.replace(first, **(workload or {})),
            msgspec.structs.replace(second, **(candidate or {})),
            h100_cluster(ranks=ranks, memory_bytes_per_rank=figure(limit_bytes), architecture=architecture),
            load_stacks()[stack],
        )
    )


def states(memory):
    return memory.parameters + memory.gradients + memory.optimizer


@pytest.mark.parametrize(
    ("stack", "workload", "bytes_each"),
    [
        ("torch", {}, 16),
        ("torch", {"pure_weights": True}, 8),
        ("torch", {"optimizer": "sgd"}, 12),
        ("torch", {"optimizer": "adamw-8bit"}, 10),
        ("torch", {"optimizer": "adamw-8bit", "pure_weights": True}, 6),
        ("torch", {"optimizer": "lomo"}, 4),
        ("torch", {"pages_states": True}, 8),
        ("ms-swift", {}, 8),
        ("megatron-core", {}, 18),
        ("megatron-deepspeed", {}, 20),
        ("mlperf", {}, 16),
    ],
)
def test_states_follow_the_stacks_recipe(stack, workload, bytes_each):
    memory = bill(stack, workload=workload, grad_accum=2, checkpointing="full")
    assert states(memory) == pytest.approx(bytes_each * parameter_count(LLAMA), rel=1e-3)


@pytest.mark.parametrize(
    ("sharding", "bytes_each"), [("none", 18), ("zero1", 6 + 12 / 8), ("zero2", 2 + 16 / 8)]
)
def test_sharing_divides_optimizer_states_then_gradients(sharding, bytes_each):
    memory = bill("megatron-core", ranks=8, candidate={"sharding": sharding})
    assert states(memory) == pytest.approx(bytes_each * parameter_count(LLAMA), rel=1e-3)


@pytest.mark.parametrize(
    ("stages", "chunks", "index", "schedule", "held"),
    [
        (4, 1, 0, "1f1b", 4),
        (4, 1, 3, "1f1b", 1),
        (4, 8, 0, "interleaved", 4 + 3 / 8),
        (4, 1, 0, "gpipe", 64),
        (4, 1, 0, "layers", 1),
        (1, 1, 0, "1f1b", 1),
    ],
)
def test_micro_batches_in_flight(stages, chunks, index, schedule, held):
    assert in_flight(stages, chunks, index, 64, schedule) == pytest.approx(held)


@given(st.sampled_from((2, 4, 8)), st.sampled_from((1, 2, 4)), st.integers(1, 64))
def test_no_pipeline_stage_keeps_more_micro_batches_than_the_first_stage_or_than_exist(
    stages, chunks, micro_batches
):
    held = [in_flight(stages, chunks, index, micro_batches, "1f1b") for index in range(stages)]
    assert held == sorted(held, reverse=True)
    assert held[0] <= micro_batches


def test_a_pipeline_does_not_shrink_the_first_stages_activations():
    one = bill("megatron-core", ranks=4, grad_accum=8)
    four = bill("megatron-core", ranks=4, grad_accum=8, candidate={"degrees": Degrees(pp=4)})
    assert four.activations == pytest.approx(one.activations, rel=0.05)
    assert four.parameters < one.parameters / 3


def test_experts_are_divided_by_expert_parallelism_and_their_tokens_are_not():
    mixtral = find_model("mixtral-8x7b")
    whole = bill("megatron-core", mixtral, ranks=8)
    spread = bill("megatron-core", mixtral, ranks=8, candidate={"degrees": Degrees(dp=8, ep=8)})
    assert spread.parameters < whole.parameters / 4
    assert spread.activations == whole.activations


def test_adapters_keep_a_frozen_base_and_little_else():
    lora = bill("hf-trainer", workload={"tuning": "lora"}, checkpointing="full")
    assert lora.parameters == pytest.approx(2 * parameter_count(LLAMA), rel=0.05)
    assert lora.optimizer < 0.1 * lora.parameters
    nf4 = bill("litgpt", workload={"tuning": "qlora", "base_bits": 4}, checkpointing="full")
    assert nf4.parameters < 0.35 * lora.parameters


@pytest.mark.parametrize(
    "changes",
    [{"optimizer_step": "fused"}, {"optimizer": "adafactor"}, {"optimizer": "adamw-8bit"}],
    ids=["fused", "rows", "8bit"],
)
def test_a_step_by_tensors_has_no_temporaries_as_large_as_the_model(changes):
    by_tensor = bill(workload=changes, micro_batch=1, checkpointing="full")
    assert by_tensor.buffers < 0.1 * parameter_count(LLAMA)
    assert bill(micro_batch=1, checkpointing="full").buffers == pytest.approx(
        4 * parameter_count(LLAMA), rel=0.1
    )


def test_a_step_within_the_backward_pass_holds_one_gradient_at_a_time():
    memory = bill(workload={"optimizer_step": "in-backward"}, checkpointing="full")
    assert memory.gradients < 0.1 * bill(checkpointing="full").gradients


def test_deepspeed_keeps_gradients_in_fp32_only_beside_bf16():
    """DeepSpeed's bf16 optimizer has fp32 gradients beside those in 16 bits; the one for fp16 has none."""
    in_bf16, in_fp16, elsewhere = (
        bill(stack, ranks=8, candidate={"sharding": "zero1"}, workload={"precision": kind}).gradients
        for stack, kind in (
            ("megatron-deepspeed", "bf16"),
            ("megatron-deepspeed", "fp16"),
            ("megatron-core", "fp16"),
        )
    )
    weights = parameter_count(LLAMA)
    assert in_bf16 == pytest.approx(6 * weights, rel=0.01)
    assert in_fp16 == pytest.approx(2 * weights, rel=0.01)
    assert elsewhere == pytest.approx(4 * weights, rel=0.01)


def test_a_quantised_base_stays_quantised_beside_fp32():
    wide, narrow = (
        bill("peft", workload={"tuning": "qlora", "base_bits": 4, "precision": kind})
        for kind in ("fp32", "bf16")
    )
    assert wide.parameters < 1.5 * narrow.parameters


LINEAR_WEIGHTS = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
"""Weights of Llama 2 7B that are quantised: all but embedding, norms and head."""


def frozen(stack: str, ranks: int = 1, **candidate: object) -> float:
    """Return the bytes of the parameters of QLoRA, without adapters and their states."""
    full = {"sharding": "zero3", "degrees": Degrees(fsdp=ranks)} if ranks > 1 else {}
    return bill(
        stack,
        ranks=ranks,
        workload={"tuning": "qlora", "base_bits": 4, "adapter_rank": 1},
        candidate={**full, **candidate},
        checkpointing="full",
    ).parameters


def test_constants_of_4_bit_weights_may_be_quantised_too():
    """QLoRA (arXiv 2305.14314, section 3): 0.5 bits per weight shrink to 0.127 bits."""
    plain, double = frozen("llama-recipes"), frozen("fsdp-qlora")
    assert (plain - double) / LINEAR_WEIGHTS * 8 == pytest.approx(0.5 - 0.127, abs=0.01)


@pytest.mark.parametrize(("stack", "bits"), [("fsdp-qlora", 0.127), ("hf-trainer", 0.5), ("torchtune", 0)])
def test_ranks_share_only_constants_that_belong_to_a_parameter(stack, bits):
    few, many = frozen(stack, 8), frozen(stack, 64)
    assert 8 * (8 * many - few) / 7 / LINEAR_WEIGHTS == pytest.approx(bits, abs=0.003)


def test_constants_stay_on_the_device_if_weights_are_offloaded():
    offload = {"offload": True, "offload_weights": True}
    assert 8 * frozen("fsdp-qlora", 8, **offload) / LINEAR_WEIGHTS == pytest.approx(0.127, abs=0.001)
    assert frozen("torchtune", 8, **offload) == 0


def test_offloaded_optimizer_states_are_not_on_the_device():
    kept, moved = (
        bill("deepspeed", ranks=8, candidate={"sharding": "zero2", "offload": off}) for off in (False, True)
    )
    assert moved.optimizer == 0
    assert moved.total < kept.total


def test_offloaded_weights_are_on_the_device_only_as_they_are_gathered():
    full = {"sharding": "zero3", "degrees": Degrees(fsdp=8), "offload": True}
    states_alone, all_of_it = (
        bill(ranks=8, candidate=full | {"offload_weights": also}) for also in (False, True)
    )
    assert (all_of_it.parameters, all_of_it.gradients, all_of_it.optimizer) == (0, 0, 0)
    assert states_alone.parameters > 0
    assert all_of_it.buffers > 0


def test_checkpoints_in_the_hosts_memory_are_not_on_the_device():
    kept, moved = (
        bill(
            "hf-trainer",
            workload={"tuning": "lora"},
            candidate={"offload_checkpoints": flag},
            checkpointing="full",
        )
        for flag in (False, True)
    )
    checkpoints = LLAMA.layers * LLAMA.sequence_length * LLAMA.hidden
    assert kept.activations - moved.activations == pytest.approx(2 * checkpoints, rel=0.01)


def test_unfused_attention_adds_the_square_of_the_length():
    fused, written = (bill(grad_accum=2, candidate={"flash_attention": flag}) for flag in (True, False))
    scores = LLAMA.layers * LLAMA.heads * LLAMA.sequence_length**2
    assert written.activations - fused.activations == pytest.approx(5 * scores, rel=0.05)


def test_the_three_figures_stand_in_order_and_an_unnamed_one_is_what_the_stack_prints():
    memory = bill("hf-trainer", checkpointing="full")
    allocated, reserved, device = (figure_bytes(memory, name) for name in ("allocated", "reserved", "device"))
    assert allocated < reserved < device == memory.total
    assert figure_bytes(memory, "unknown") == device
    assert figure_bytes(bill("torchtitan"), "") == bill("torchtitan").reserved


def test_a_log_of_the_last_stage_shows_less_than_the_fullest_has():
    memory = bill("megatron-core", ranks=4, grad_accum=8, candidate={"degrees": Degrees(pp=4)})
    assert figure_bytes(memory, "allocated") < memory.allocated


def test_the_allocator_gives_back_when_memory_is_short():
    roomy = bill("ms-swift", workload={"tuning": "lora"})
    tight = bill("ms-swift", workload={"tuning": "lora"}, limit_bytes=roomy.needed * 1.05)
    assert roomy.reserved > tight.reserved
    assert tight.total == pytest.approx(roomy.needed * 1.05)
    assert tight.needed == roomy.needed


def test_a_megatron_run_with_a_pipeline_as_its_continuous_tests_log_it():
    # Megatron-LM functional tests, gpt3_7b_tp1_pp4_memory_speed on H100: 56.6 GiB allocated on the last of 4
    # stages
    model = msgspec.structs.replace(
        LLAMA, layers=32, hidden=4096, heads=32, kv_heads=8, ffn_hidden=16384, vocab=131072, gated_mlp=False
    )
    layout = {"degrees": Degrees(dp=2, pp=4, vp=8), "sharding": "zero1"}
    memory = bill("megatron-core", model, ranks=8, grad_accum=4, sequence_length=8192, candidate=layout)
    assert figure_bytes(memory, "allocated") / GIB == pytest.approx(56.6, rel=0.1)


def test_a_loss_under_autocast_is_wider_than_one_in_sixteen_bits():
    mixed, pure = (
        bill("hf-trainer", workload={"tuning": "lora", "pure_weights": flag}) for flag in (False, True)
    )
    assert mixed.logits > pure.logits


def test_deepspeed_keeps_a_whole_gradient_bucket_even_for_small_adapters():
    lora = {"tuning": "lora", "adapter_rank": 8, "precision": "fp32"}
    offloaded = bill(
        "peft", workload=lora, candidate={"sharding": "zero3", "strategy": "fsdp", "offload": True}
    )
    live = 4 * 1e9  # stage3_max_live_parameters of fp32
    assert offloaded.buffers >= live + 4 * 5e8  # reduce_bucket_size


def test_sequences_of_unknown_length_leave_more_behind():
    chat = {"tuning": "lora", "fine_tuning": True}
    stated, unstated = (
        bill("hf-trainer", workload=chat | {"length_stated": flag}, checkpointing="full")
        for flag in (True, False)
    )
    assert stated.allocated == unstated.allocated
    assert stated.reserved < unstated.reserved


def test_a_last_stage_that_predicts_further_ahead_holds_an_embedding_and_another_loss():
    layout = {"degrees": Degrees(pp=4), "grad_accum": 8}
    model = msgspec.structs.replace(LLAMA, layers=31, prediction_layers=1)
    # the stack logs its last stage
    ahead, plain = (
        figure_bytes(bill("megatron-core", item, ranks=4, candidate=layout), "allocated")
        for item in (model, LLAMA)
    )
    assert ahead - plain >= 18 * LLAMA.vocab * LLAMA.hidden


def test_sharing_with_deepspeed_adds_its_two_buckets():
    lora = {"tuning": "lora", "adapter_rank": 8}
    shared = bill("hf-trainer", ranks=4, workload=lora, candidate={"sharding": "zero2"})
    assert shared.buffers == pytest.approx(2 * 2 * 5e8)


def test_a_device_map_fills_its_first_gpu_with_a_layer_more():
    even = stages_of(LLAMA, Degrees(pp=2), 1, "1f1b")
    mapped = stages_of(LLAMA, Degrees(pp=2), 1, "layers")
    layers = [[sum(count for count, _ in stage.blocks) for stage in stages] for stages in (even, mapped)]
    assert layers == [[16, 16], [17, 15]]


def test_stated_sequence_parallelism_takes_precedence_over_the_default_of_the_stack():
    layout = {"degrees": Degrees(tp=4)}
    blank, split, whole = (
        bill("megatron-core", ranks=4, candidate=layout | {"sequence_parallel": flag}).activations
        for flag in (None, True, False)
    )
    assert blank == split < whole


@pytest.mark.parametrize(
    ("stack", "workload", "candidate", "bytes_each"),
    [
        ("mlperf", {}, {}, 1),
        ("mlperf", {"precision": "bf16"}, {}, 0),
        ("mlperf", {"tuning": "lora"}, {}, 0),
        ("mlperf", {}, {"sharding": "zero3", "strategy": "fsdp"}, 0),
        ("torchtitan", {}, {}, 0),
    ],
)
def test_eight_bit_weights_have_a_transposed_copy_where_products_take_one_layout(
    stack, workload, candidate, bytes_each
):
    hopper, blackwell = (
        bill(stack, workload={"precision": "fp8"} | workload, candidate=candidate, architecture=name)
        for name in ("hopper", "blackwell")
    )
    matrices = parameter_count(LLAMA) - 2 * LLAMA.vocab * LLAMA.hidden
    assert hopper.parameters - blackwell.parameters == pytest.approx(bytes_each * matrices, rel=1e-3)


def test_formats_with_scales_of_rows_and_columns_keep_both_everywhere():
    scaled, whole = (
        bill("mlperf", workload={"precision": name}, architecture="blackwell") for name in ("mxfp8", "fp8")
    )
    assert scaled.parameters > 1.3 * whole.parameters


def test_torchs_tensor_parallel_layers_keep_the_gathered_input_and_megatrons_their_part():
    # as counted with saved-tensor hooks on a parallelized module: the input of a column-wise layer has all
    # tokens
    layout = {"degrees": Degrees(tp=4)}
    shares = [
        bill(stack, ranks=4, candidate=layout).activations / bill(stack).activations
        for stack in ("torchtitan", "megatron-core")
    ]
    assert shares[0] > shares[1] == pytest.approx(1 / 4, rel=1e-3)


def test_a_loss_whose_vocabulary_is_split_has_more_temporaries():
    # torch.distributed.tensor.parallel.loss writes the softmax step by step
    layout = {"degrees": Degrees(tp=4)}
    one, four = (
        bill("torchtitan", ranks=4, candidate={"micro_batch": 32} | changes, checkpointing="full").logits
        for changes in ({}, layout)
    )
    assert one / 4 < four < one / 2


def test_layers_that_predict_further_ahead_are_added_to_the_last_stages_share():
    def held(layers):
        model = msgspec.structs.replace(LLAMA, layers=layers, prediction_layers=1)
        return [
            sum(count for count, _ in stage.blocks) for stage in stages_of(model, Degrees(pp=2), 4, "1f1b")
        ]

    assert held(14) == [7, 8]
    assert held(13) == [7, 7]  # with a layer that predicts further ahead, 13 layers are 14


@pytest.mark.parametrize(("model", "shares"), [("mixtral-8x7b", 1), ("mixtral-8x22b", 2)])
def test_tensor_parallelism_divides_only_large_experts(model, shares):
    mixtral = find_model(model)
    whole, cut = (stages_of(mixtral, Degrees(tp=tp, ep=8), 1, "1f1b")[0].expert for tp in (1, 2))
    assert whole == pytest.approx(shares * cut)


@pytest.mark.parametrize(
    ("stack", "changes", "whole"),
    [
        ("litgpt", {}, True),
        ("hf-trainer", {}, True),
        ("torchtitan", {}, False),
        ("litgpt", {"offload": True}, False),
    ],
)
def test_gradients_wait_whole_for_the_last_micro_batch_where_ranks_do_not_synchronise_before(
    stack, changes, whole
):
    sharded = {"sharding": "zero3", "strategy": "fsdp", "degrees": Degrees(fsdp=8)} | changes
    one, four = (
        bill(stack, ranks=8, candidate=sharded, grad_accum=count, checkpointing="full", sequence_length=512)
        for count in (1, 4)
    )
    assert (four.allocated > one.allocated + parameter_count(LLAMA)) == whole


def test_selective_recomputation_by_products_keeps_no_product_of_the_experts():
    mixture = find_model("qwen3-30b-a3b")
    wider = msgspec.structs.replace(mixture, expert_ffn_hidden=2 * mixture.expert_ffn_hidden)
    # many layers, so that the one that is computed again hardly counts
    kept = [
        bill(
            "torchtitan", model=msgspec.structs.replace(item, layers=layers), checkpointing="selective"
        ).activations
        for item in (mixture, wider)
        for layers in (100, 200)
    ]
    assert kept[1] - kept[0] == pytest.approx(kept[3] - kept[2])


BERT = find_model("bert-large")


def test_hugging_faces_encoders_write_scores_out_and_keep_what_dropout_needs():
    fused, usual = (
        bill("hf-trainer", BERT, candidate={"flash_attention": flag}).activations for flag in (True, None)
    )
    # a softmax in fp32, its dropped 16-bit copy and the mask, per layer, head, token and key
    scores = BERT.layers * BERT.heads * BERT.sequence_length
    tokens = (usual - fused) / (scores * 7 - BERT.layers * BERT.heads * 4)
    assert tokens == pytest.approx(round(tokens), rel=1e-6)
    assert round(tokens) % BERT.sequence_length == 0


def test_dropout_of_the_residual_stream_keeps_a_mask_of_a_byte():
    dropping, plain = (
        bill(
            "hf-trainer", msgspec.structs.replace(LLAMA, dropout=flag), candidate={"micro_batch": 8}
        ).activations
        for flag in (True, False)
    )
    tokens = (dropping - plain) / (2 * LLAMA.layers * LLAMA.hidden)
    assert tokens == pytest.approx(round(tokens), rel=1e-6)
    assert round(tokens) == 8 * LLAMA.sequence_length


@pytest.mark.parametrize(("stack", "writes"), [("megatron-core", True), ("hf-trainer", False)])
def test_only_hand_written_kernels_write_scores_on_gpus_before_flash_attention(stack, writes):
    volta, ampere = (bill(stack, architecture=name).activations for name in ("volta", "ampere"))
    assert (volta > ampere) == writes


def test_fully_sharded_experts_are_shared_by_tensor_parallel_ranks_too():
    # all ranks together have each expert once, whatever the axes are called
    mixture = find_model("qwen3-30b-a3b")
    layout = {"sharding": "zero3", "strategy": "fsdp"}
    plain, folded = (
        bill("torchtitan", model=mixture, ranks=8, candidate=layout | {"degrees": degrees}).optimizer
        for degrees in (Degrees(fsdp=8), Degrees(fsdp=2, tp=4, ep=2))
    )
    assert folded == pytest.approx(plain, rel=0.01)
