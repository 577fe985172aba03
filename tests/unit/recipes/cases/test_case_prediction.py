"""Test that any row is answered, and that usual values fill the open parts of a case and are reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.cases.case import COLUMNS, case_of_row
from recipes.cases.prediction import CasePrediction, predict_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.job.candidate import Candidate
from recipes.predict.memory.peak import memory_of

LLAMA = {
    "case_id": "a",
    "model": "llama-3-8b",
    "family": "dense",
    "n_layers": "32",
    "hidden": "4096",
    "n_heads": "32",
    "n_kv_heads": "8",
    "ffn_hidden": "14336",
    "vocab": "128256",
    "seq_len": "8192",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
}
BERT = {
    "case_id": "b",
    "model": "bert-large",
    "family": "encoder",
    "n_layers": "24",
    "hidden": "1024",
    "n_heads": "16",
    "ffn_hidden": "4096",
    "vocab": "30522",
    "gpu": "V100-SXM2-16GB",
    "n_gpus": "8",
}


def resolved(row: dict[str, str], **changes: str) -> ResolvedCase:
    return resolve(case_of_row({**row, **changes}))


def candidate(row: dict[str, str], **changes: str) -> Candidate:
    return resolved(row, **changes).candidate


def test_stated_settings_are_taken() -> None:
    case = resolved(
        LLAMA,
        stack="megatron-core",
        n_gpus="64",
        tp="2",
        pp="4",
        vp="2",
        micro_batch="1",
        global_batch="128",
        precision="fp8",
        optimizer="AdamW",
        activation_checkpointing="selective",
        interconnect_inter="8x NDR InfiniBand 400 Gb/s",
    )
    layout = case.candidate
    assert (layout.degrees.tp, layout.degrees.pp, layout.degrees.vp, layout.degrees.dp) == (2, 4, 2, 8)
    assert (layout.micro_batch, layout.grad_accum, layout.global_batch) == (1, 16, 128)
    assert (layout.activation_checkpointing, layout.sharding, layout.schedule) == (
        "selective",
        "zero1",
        "interleaved",
    )
    assert (case.workload.precision, case.workload.optimizer, case.batch_stated) == ("fp8", "adamw", True)
    (note,) = case.assumed
    assert note.startswith("sharding zero1, the default of megatron-core")


@pytest.mark.parametrize(
    ("changes", "sharding", "dp", "fsdp"),
    [
        ({"sharding": "ddp"}, "none", 16, 1),
        ({"sharding": "ddp", "stack": "megatron-core"}, "zero1", 16, 1),
        ({"sharding": "fsdp"}, "zero3", 1, 16),
        ({"sharding": "fsdp", "fsdp": "8"}, "zero3", 2, 8),
        ({"sharding": "hsdp", "gpus_per_node": "8"}, "zero3", 2, 8),
        ({"sharding": "deepspeed", "zero_stage": "2"}, "zero2", 16, 1),
        ({"sharding": "fsdp", "zero_stage": "2"}, "zero2", 16, 1),
        ({"zero_stage": "3"}, "zero3", 1, 16),
    ],
)
def test_sharding(changes: dict[str, str], sharding: str, dp: int, fsdp: int) -> None:
    layout = candidate(LLAMA, n_gpus="16", micro_batch="1", **changes)
    assert (layout.sharding, layout.degrees.dp, layout.degrees.fsdp) == (sharding, dp, fsdp)


@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({"micro_batch": "2"}, (2, 1, 16)),
        ({"micro_batch": "2", "grad_accum": "4"}, (2, 4, 64)),
        ({"micro_batch": "2", "global_batch": "64"}, (2, 4, 64)),
        ({"grad_accum": "4", "global_batch": "64"}, (2, 4, 64)),
        ({"micro_batch": "2", "grad_accum": "16", "global_batch": "64"}, (2, 4, 64)),
    ],
)
def test_batches_follow_from_each_other(changes: dict[str, str], batches: tuple[int, int, int]) -> None:
    layout = candidate(LLAMA, sharding="fsdp", **changes)
    assert (layout.micro_batch, layout.grad_accum, layout.global_batch) == batches


@pytest.mark.parametrize(
    ("sizes", "is_timed"), [({}, False), ({"micro_batch": "2"}, True), ({"grad_accum": "2"}, True)]
)
def test_a_step_is_timed_where_the_row_states_its_samples(sizes: dict[str, str], is_timed: bool) -> None:
    answer = predict_row({**LLAMA, **sizes})
    assert (answer.step_time_s is not None, answer.samples_per_s is not None) == (is_timed, True)
    assert any(note.endswith("no accumulation") for note in answer.assumed) == ("grad_accum" not in sizes)


def test_a_pipeline_is_taken_to_be_filled_where_nothing_says_how_many_micro_batches_it_gets() -> None:
    layout = {
        "n_gpus": "32",
        "tp": "2",
        "pp": "4",
        "sharding": "zero1",
        "micro_batch": "1",
        "seq_len": "2048",
    }
    answer = predict_row({**LLAMA, "stack": "megatron-core", **layout})
    assert answer.global_batch == 4 * 16
    assert any(note.endswith("grad_accum 16") for note in answer.assumed)
    stated = predict_row({**LLAMA, "stack": "megatron-core", **layout, "grad_accum": "1"})
    assert stated.global_batch == 4


def test_a_contradiction_between_batches_is_reported() -> None:
    case = resolved(LLAMA, sharding="fsdp", micro_batch="2", grad_accum="16", global_batch="64")
    assert any("grad_accum 16" in words for words in case.assumed)


def test_gpus_follow_from_the_layout() -> None:
    assert resolved(LLAMA, n_gpus="", tp="4", pp="2", dp="2", micro_batch="1").gpus == 16
    batches = {"tp": "4", "micro_batch": "1", "grad_accum": "2", "global_batch": "16"}
    assert resolved(LLAMA, n_gpus="", **batches).gpus == 32


@pytest.mark.parametrize(
    ("layout", "gpus"), [({"tp": "2", "ep": "64"}, 64), ({"tp": "2", "pp": "2", "ep": "8"}, 32)]
)
def test_experts_take_the_gpus_of_tensor_parallelism_too(layout: dict[str, str], gpus: int) -> None:
    mixture = {"case_id": "m", "model": "deepseek-v3", "gpu": "H200-SXM-141GB", "stack": "megatron-core"}
    assert resolved(mixture, sharding="zero1", **layout).gpus == gpus


MIXTURE = {"model": "mixtral-8x7b", "gpu": "H200-SXM-141GB", "seq_len": "4096", "n_gpus": "32"}
MESH = {"stack": "pytorch-fsdp", "sharding": "fsdp", "tp": "4", "ep": "2", "micro_batch": "8"}


def test_experts_have_an_axis_of_their_own_if_the_degrees_multiply_to_the_gpus() -> None:
    apart = candidate(MIXTURE, **MESH, fsdp="4", global_batch="32")
    assert (apart.degrees.dp, apart.degrees.fsdp, apart.degrees.ep) == (1, 8, 2)
    assert (apart.micro_batch, apart.grad_accum, apart.global_batch) == (8, 1, 32)
    within = candidate(MIXTURE, **MESH, fsdp="8", global_batch="64")
    assert (within.degrees, within.micro_batch, within.grad_accum) == (apart.degrees, 8, 1)
    # Here experts are known to use data-parallel ranks.
    nested = candidate(MIXTURE, **{**MESH, "stack": "torchtitan"}, fsdp="4", global_batch="32")
    assert (nested.degrees.dp, nested.degrees.fsdp, nested.micro_batch) == (2, 4, 4)
    replicated = candidate(MIXTURE, **MESH, fsdp="4", dp="2", global_batch="64")
    assert (replicated.degrees.dp, replicated.degrees.fsdp, replicated.micro_batch) == (2, 4, 8)


@pytest.mark.parametrize(("batch", "micro_batch"), [("65", 8), ("63", 8), ("61", 8), ("60", 7), ("32", 4)])
def test_a_batch_from_a_rounded_rate_keeps_the_micro_batch(batch: str, micro_batch: int) -> None:
    layout = candidate(LLAMA, sharding="fsdp", micro_batch="8", global_batch=batch)
    assert (layout.micro_batch, layout.grad_accum, layout.global_batch) == (micro_batch, 1, int(batch))


def test_gpus_without_a_sequence_of_their_own_share_the_model() -> None:
    shared = {"n_gpus": "8", "grad_accum": "4", "global_batch": "8", "seq_len": "2048"}
    layout = candidate(LLAMA, stack="megatron-core", **shared)
    degrees = layout.degrees
    assert (degrees.tp * degrees.pp * degrees.cp, layout.micro_batch, layout.grad_accum) == (4, 1, 4)
    layout = candidate(LLAMA, stack="deepspeed", n_gpus="512", global_batch="256")
    assert layout.degrees.cp == 2


def test_layers_split_over_gpus_that_wait_for_each_other() -> None:
    layout = candidate(
        LLAMA, stack="hf-trainer", n_gpus="2", micro_batch="1", grad_accum="16", global_batch="16", task="sft"
    )
    assert (layout.degrees.pp, layout.degrees.dp, layout.schedule) == (2, 1, "layers")


def test_without_a_layout_the_fastest_that_fits_is_used() -> None:
    large = {
        "n_layers": "96",
        "hidden": "12288",
        "n_heads": "96",
        "n_kv_heads": "96",
        "ffn_hidden": "49152",
        "model": "gpt",
    }
    case = resolved(LLAMA, **large, stack="megatron-core", global_batch="1536", n_gpus="1536", seq_len="2048")
    assert case.candidate.degrees.tp * case.candidate.degrees.pp >= 16
    (words,) = [text for text in case.assumed if text.startswith("layout ")]
    assert f"tp {case.candidate.degrees.tp} pp {case.candidate.degrees.pp}" in words
    memory = memory_of(case.job)  # type: ignore[arg-type]
    assert memory.needed <= case.cluster.memory_bytes_per_rank.value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("row", "changes", "length"),
    [
        (BERT, {"task": "sft"}, 384),
        (BERT, {"task": "pretrain"}, 512),
        (LLAMA, {"seq_len": "", "task": "lora", "stack": "ms-swift"}, 2048),
    ],
)
def test_a_length_that_is_not_stated(row: dict[str, str], changes: dict[str, str], length: int) -> None:
    case = resolved(row, micro_batch="1", **changes)
    assert case.workload.sequence_length == length
    assert f"seq_len {length}" in case.assumed


@pytest.mark.parametrize(
    ("row", "changes", "precision"),
    [
        (LLAMA, {}, "bf16"),
        (LLAMA, {"stack": "mlperf"}, "fp8"),
        (LLAMA, {"stack": "mlperf", "gpu": "A100-SXM-80GB"}, "bf16"),
        (BERT, {"stack": "mlperf", "gpu": "A100-SXM-80GB"}, "fp16"),
        (BERT, {}, "fp16"),
        (BERT, {"gpu": "A100-SXM-80GB"}, "bf16"),
        (BERT, {"stack": "torch"}, "fp32"),
        (BERT, {"stack": "hf-trainer"}, "fp32"),
        (BERT, {"stack": "TensorFlow 2.4", "gpu": "V100-SXM2-16GB"}, "fp32"),
        (BERT, {"stack": "TensorFlow 2.4", "gpu": "A100-SXM-80GB"}, "tf32"),
        (BERT, {"stack": "TensorFlow 2.4", "gpu": "A100-SXM-80GB", "precision": "fp32"}, "tf32"),
        (BERT, {"stack": "torch", "gpu": "A100-SXM-80GB", "precision": "fp32"}, "fp32"),
        (LLAMA, {"stack": "peft", "task": "lora"}, "fp32"),
        (LLAMA, {"precision": "nf4", "task": "lora"}, "bf16"),
    ],
)
def test_a_precision_that_is_not_stated(row: dict[str, str], changes: dict[str, str], precision: str) -> None:
    case = resolved(row, micro_batch="1", **changes)
    assert case.workload.precision == precision


@pytest.mark.parametrize(
    ("changes", "tuning", "bits", "pure"),
    [
        ({"task": "lora", "precision": "bf16"}, "lora", 16, True),
        ({"task": "lora", "precision": "nf4"}, "qlora", 4, False),
        ({"task": "qlora", "precision": "bf16-mixed"}, "qlora", 4, False),
        ({"task": "qlora", "precision": "int8"}, "qlora", 8, False),
        ({"task": "sft", "precision": "bf16"}, "full", 16, True),
        ({"task": "pretrain", "precision": "bf16"}, "full", 16, False),
        ({"task": "sft", "precision": "bf16-mixed"}, "full", 16, False),
        ({"task": "pretrain", "precision": "bf16-true"}, "full", 16, True),
        ({"task": "pretrain", "precision": "bf16", "stack": "litgpt"}, "full", 16, True),
        ({"task": "pretrain", "precision": "bf16-mixed", "stack": "litgpt"}, "full", 16, False),
        ({"task": "pretrain", "stack": "litgpt"}, "full", 16, False),
    ],
)
def test_adapters_and_weights(changes: dict[str, str], tuning: str, bits: int, pure: bool) -> None:
    workload = resolved(LLAMA, micro_batch="1", **changes).workload
    assert (workload.tuning, workload.base_bits, workload.pure_weights) == (tuning, bits, pure)


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"n_gpus": "12", "tp": "8"}, "n_gpus"),
        ({"gpu": ""}, "gpu"),
        ({"gpu": "Abacus 3000"}, "gpu"),
        ({"precision": "roman numerals"}, "precision"),
        ({"sharding": "fsdp", "fsdp": "3"}, "fsdp"),
    ],
)
def test_a_refusal_names_the_column(changes: dict[str, str], column: str) -> None:
    answer = predict_row({**LLAMA, "micro_batch": "1", **changes})
    assert (answer.case_id, answer.status) == ("a", "refused")
    assert answer.reason.startswith(column)


def test_each_figure_has_its_interval() -> None:
    answer = predict_row({**LLAMA, "micro_batch": "1", "grad_accum": "1", "sharding": "fsdp"})
    assert in_order(answer.step_time_low_s, answer.step_time_s, answer.step_time_high_s)
    assert in_order(answer.peak_mem_low_gib, answer.peak_mem_gib, answer.peak_mem_high_gib)


def in_order(*values: float | None) -> bool:
    known = [value for value in values if value is not None]
    return len(known) == len(values) and known == sorted(set(known))


WORDS = st.one_of(
    st.text(max_size=20),
    st.integers(min_value=-2, max_value=10**7).map(str),
    st.sampled_from(
        [
            "ddp",
            "fsdp",
            "bf16",
            "nf4",
            "lora",
            "true",
            "none",
            "H100-SXM-80GB",
            "megatron-core",
            "bert-large",
            "moe",
        ]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(COLUMNS), WORDS), st.booleans())
def test_any_row_is_answered(cells: dict[str, str], on_a_good_one: bool) -> None:
    answer: CasePrediction = predict_row({**(LLAMA if on_a_good_one else {}), **cells})
    assert answer.status in ("predicted", "refused")
    assert (answer.status == "refused") == bool(answer.reason)
    if answer.status == "predicted":
        assert answer.memory is not None or answer.time is not None
        figures: list[Any] = [
            answer.step_time_s,
            answer.tokens_per_s_per_gpu,
            answer.samples_per_s,
            answer.peak_mem_gib,
        ]
        assert all(value is None or 0 < value < float("inf") for value in figures)


def test_hugging_face_predicts_every_position_of_a_masked_language_model() -> None:
    by_name = {
        stack: resolved(BERT, micro_batch="1", stack=stack)
        for stack in ("hf-trainer", "nvidia-deeplearningexamples")
    }
    fractions = {name: case.workload.model.head_fraction for name, case in by_name.items()}
    assert fractions == {"hf-trainer": 1.0, "nvidia-deeplearningexamples": 0.15}
