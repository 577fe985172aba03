"""Costs of host and framework in a step: hooks of sharded modules, casts, kernels that a GPU lacks."""

from __future__ import annotations

import msgspec
import pytest

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.speed.step import step_time
from recipes.predict.stack_memory import ShardSchedule
from recipes.predict.stacks import Stack, load_stacks
from recipes.predict.training_job import job_of
from tests.unit.recipes.cases.test_case_prediction import LLAMA

SMALL = {**LLAMA, "seq_len": "512", "micro_batch": "1", "precision": "bf16-mixed"}


def resolved(row: dict[str, str], **changes: str) -> ResolvedCase:
    return resolve(case_of_row({**row, **changes}))


def with_stack(case: ResolvedCase, stack: Stack) -> ResolvedCase:
    return msgspec.structs.replace(case, job=job_of(case.workload, case.candidate, case.cluster, stack))


def time_of(case: ResolvedCase) -> TimeBreakdown:
    time = step_time(case.job)
    assert isinstance(time, TimeBreakdown)
    return time


def test_hooks_of_every_module_cost_more_than_those_of_every_block() -> None:
    by_block = time_of(resolved(SMALL, stack="hf-trainer", sharding="fsdp"))
    by_module = time_of(resolved(SMALL, stack="hf-trainer", sharding="zero-3"))
    assert by_module.launches > 2.0 * by_block.launches


def test_nothing_is_gathered_where_nothing_is_sharded() -> None:
    assert time_of(resolved(SMALL, stack="deepspeed", sharding="zero-1")).launches == pytest.approx(
        time_of(resolved(SMALL, stack="deepspeed", sharding="ddp")).launches
    )


def test_hooks_are_hidden_by_enough_work() -> None:
    """The host runs ahead: a long sequence keeps the GPU busy for longer than the hooks take."""
    short = time_of(resolved(SMALL, stack="deepspeed", sharding="zero-3"))
    long = time_of(resolved(SMALL, stack="deepspeed", sharding="zero-3", seq_len="65536"))
    assert long.launches < 0.01 * short.launches


@pytest.mark.parametrize("stack", ["deepspeed", "hf-trainer"])
def test_a_single_gpu_has_no_hooks(stack: str) -> None:
    assert time_of(resolved(SMALL, stack=stack, n_gpus="1", sharding="zero-3")).launches == pytest.approx(
        time_of(resolved(SMALL, stack=stack, n_gpus="1", sharding="single")).launches
    )


def test_gradients_that_wait_for_the_last_micro_batch_are_reduced_once() -> None:
    """accelerate uses no_sync until the last micro-batch; the compared schedule reduces in every one."""
    row = {
        **LLAMA,
        "sharding": "fsdp",
        "n_gpus": "16",
        "stack": "hf-trainer",
        "precision": "bf16-mixed",
        "seq_len": "1024",
    }
    row |= {"micro_batch": "1", "activation_checkpointing": "none"}
    case = resolved(row, grad_accum="8")
    each = ShardSchedule()
    other = with_stack(case, msgspec.structs.replace(case.stack, shards=each))
    assert time_of(case).exposed_communication < time_of(other).exposed_communication
    alone = resolved(row, grad_accum="1")
    same = with_stack(alone, msgspec.structs.replace(alone.stack, shards=each))
    assert time_of(alone).exposed_communication == time_of(same).exposed_communication


def test_fused_kernels_write_eight_bits_themselves() -> None:
    """Check that separate casts to 8 bits add more than a tenth to the products of narrow layers."""
    fused = resolved(
        LLAMA, stack="megatron-core", precision="fp8", hidden="1024", ffn_hidden="4096", n_heads="16"
    )
    eager = with_stack(fused, msgspec.structs.replace(fused.stack, kernels="eager"))
    assert time_of(fused).products < 0.9 * time_of(eager).products


def test_flash_attention_3_is_for_hopper_alone() -> None:
    stack = load_stacks()["nanochat"]
    older = msgspec.structs.replace(stack, attention="flash2")
    for gpu, differs in (("H100-SXM-80GB", True), ("A100-SXM-80GB", False), ("B200-SXM", False)):
        case = resolved(LLAMA, stack="nanochat", gpu=gpu)
        now, before = time_of(case), time_of(with_stack(case, older))
        assert (now.attention < before.attention) is differs


def test_torch_takes_the_attention_of_cudnn_on_blackwells_data_center_gpus() -> None:
    stack = load_stacks()["torchtitan"]
    other = msgspec.structs.replace(stack, attention="cudnn")
    for gpu, same in (("B200-SXM", True), ("B300-SXM", True), ("H100-SXM-80GB", False), ("RTX 5090", False)):
        case = resolved(LLAMA, stack="torchtitan", gpu=gpu)
        usual, forced = time_of(case), time_of(with_stack(case, other))
        assert (usual.attention == forced.attention) is same


def test_nanochat_takes_the_batch_that_fits_and_recomputes_nothing() -> None:
    case = resolved(
        {"model": "nanochat-d26", "family": "dense", "gpu": "H100-SXM-80GB", "n_gpus": "8"}, stack="nanochat"
    )
    assert case.candidate.activation_checkpointing == "none"
    limit = case.cluster.memory_bytes_per_rank
    assert limit is not None
    assert case.memory_of_case().needed <= limit.value


MIXTRAL = {
    **SMALL,
    "model": "mixtral-8x7b",
    "family": "moe",
    "n_experts": "8",
    "moe_topk": "2",
    "vocab": "32000",
    "stack": "megatron-core",
}


def test_each_expert_quantises_its_operands() -> None:
    """The host launches more for 8 bits, so a small step gains nothing from them."""
    wide = time_of(resolved(MIXTRAL, precision="bf16", ep="8", tp="1", seq_len="128"))
    narrow = time_of(resolved(MIXTRAL, precision="fp8", ep="8", tp="1", seq_len="128"))
    more_experts = time_of(resolved(MIXTRAL, precision="fp8", ep="1", n_gpus="64", tp="1", seq_len="128"))
    assert narrow.compute > 0.95 * wide.compute
    assert more_experts.compute > narrow.compute


def test_thousands_of_ranks_do_not_wait_for_one_ring() -> None:
    """With ZeRO-1 inside each node, 16 times the ranks wait less than 1.5 times as long."""
    row = {
        "model": "bert-large",
        "family": "encoder",
        "gpu": "A100-SXM-80GB",
        "stack": "mlperf",
        "micro_batch": "4",
    }
    few, many = (time_of(resolved(row, n_gpus=gpus, sharding="zero-1")) for gpus in ("256", "4096"))
    assert many.exposed_communication < 1.5 * few.exposed_communication


def test_an_optimizer_that_works_operation_by_operation_moves_more() -> None:
    row = {**SMALL, "n_gpus": "1", "sharding": "single"}
    fused, foreach = (time_of(resolved(row, stack=stack)) for stack in ("megatron-core", "hf-trainer"))
    assert foreach.optimizer > 1.5 * fused.optimizer


def test_fused_kernels_hide_dropout() -> None:
    """An encoder has dropout after each norm; fused into another kernel, dropout moves only its mask."""
    row = {
        "model": "bert-large",
        "family": "encoder",
        "gpu": "A100-SXM-80GB",
        "seq_len": "512",
        "micro_batch": "32",
    }
    fused, eager = (time_of(resolved(row, stack=stack)) for stack in ("deepspeed", "torch"))
    assert fused.elementwise < 0.6 * eager.elementwise


@pytest.mark.parametrize(("stack", "packs"), [("megatron-core", True), ("hf-trainer", False)])
def test_attention_of_packed_samples_stays_within_each(stack: str, packs: bool) -> None:
    row = {**LLAMA, "stack": stack, "micro_batch": "1", "activation_checkpointing": "none", "gpu": "B200-SXM"}
    trained, tuned = (time_of(resolved(row, task=task)) for task in ("pretrain", "sft"))
    assert (tuned.attention < 0.3 * trained.attention) is packs
    assert tuned.products == pytest.approx(trained.products)


@pytest.mark.parametrize(
    ("stack", "changes", "costs"),
    [
        ("hf-trainer", {}, True),
        ("hf-trainer", {"compile": "true"}, False),
        ("megatron-core", {}, False),
        ("litgpt", {}, False),
    ],
)
def test_an_odd_vocabulary_slows_the_head_unless_it_is_padded(
    stack: str, changes: dict[str, str], costs: bool
) -> None:
    odd, round_number = (
        time_of(resolved(SMALL, stack=stack, vocab=vocab, **changes)) for vocab in ("50257", "50304")
    )
    assert (odd.head > 1.1 * round_number.head) == costs


def test_experts_of_several_nodes_are_gathered_by_one_rank_of_each() -> None:
    """Ranks of a node have different experts, so each gathers its own over its part of the network."""
    row = {**MIXTRAL, "stack": "torchtitan", "sharding": "fsdp", "n_gpus": "64", "ep": "8", "seq_len": "128"}
    few, many = (resolved(row, ffn_hidden=width, precision="bf16-mixed") for width in ("14336", "28672"))
    node = few.cluster.inter_bus_bandwidth_bytes_per_s
    assert node is not None
    # Twice the width adds as many bytes as Mixtral's experts have in 16 bits. A rank gathers an eighth of
    # them in the forward and again in the backward pass.
    more_bytes = 2.0 * 2.0 * 32 * 8 * 3 * 4096 * 14336 / 8
    grown = time_of(many).exposed_communication - time_of(few).exposed_communication
    assert grown > 2.0 * more_bytes / node.value


def test_muon_multiplies_matrices_where_other_optimizers_only_move_them() -> None:
    """Check that ranks that share the states also share the products."""
    adamw, muon = (
        time_of(resolved(SMALL, stack="torch", sharding="ddp", optimizer=name)) for name in ("adamw", "muon")
    )
    shared = time_of(resolved(SMALL, stack="torch", sharding="zero1", optimizer="muon"))
    assert muon.optimizer > 3.0 * adamw.optimizer
    assert shared.optimizer < 0.3 * muon.optimizer


def test_without_sequence_parallelism_each_rank_repeats_the_norms() -> None:
    """Tensor parallelism alone divides everything but the norms and the residual stream."""

    def elementwise(ranks: int, *, divides_norms: bool) -> float:
        flag = "true" if divides_norms else "false"
        row = {**SMALL, "stack": "megatron-core", "sequence_parallel": flag}
        return time_of(resolved(row, n_gpus=str(ranks), tp=str(ranks))).elementwise

    whole = elementwise(1, divides_norms=True)
    assert elementwise(4, divides_norms=True) == pytest.approx(whole / 4, rel=0.01)
    two, four = (elementwise(ranks, divides_norms=False) for ranks in (2, 4))
    divided = 4 * (two - four)
    repeated = whole - divided
    assert divided > repeated / 10
    assert repeated > divided / 10
    assert four == pytest.approx(repeated + divided / 4, rel=0.01)
