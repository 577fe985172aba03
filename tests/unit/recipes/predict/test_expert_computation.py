"""Experts that a kernel computes together, and experts that a loop computes one after the other."""

import pytest
from msgspec.structs import replace

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.speed.step import step_time
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import transformer_job
from tests.calibration.priors import trying

ROW = {
    "stack": "torch",
    "model": "mixtral-8x7b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "32",
    "gpus_per_node": "8",
    "sharding": "fsdp",
    "seq_len": "4096",
    "micro_batch": "1",
    "grad_accum": "1",
    "activation_checkpointing": "full",
}


def step(experts: str = "", **changes: str) -> TimeBreakdown:
    case = resolve(case_of_row({**ROW, **changes}))
    stack = replace(case.stack, experts=experts) if experts else case.stack
    time = step_time(transformer_job(case.workload, case.candidate, case.cluster, stack))
    assert isinstance(time, TimeBreakdown)
    return time


def test_a_loop_over_experts_is_slower_than_one_kernel() -> None:
    assert step("looped").total > 1.2 * step("grouped").total
    many = {"model": "qwen3-30b-a3b"}
    assert step("looped", **many).total > 1.8 * step("grouped", **many).total


def test_nothing_hides_the_gathers_of_a_loop_that_waits_on_the_host() -> None:
    looped, grouped = step("looped"), step("grouped")
    assert looped.exposed_communication > 1.3 * grouped.exposed_communication


def test_tensor_parallelism_does_not_divide_the_experts_of_a_loop() -> None:
    def products_s(experts: str, tensor: str) -> float:
        # without a stated batch, the stack would give tensor-parallel ranks more sequences
        return step(experts, tp=tensor, sharding="ddp", global_batch="4", n_gpus="4").products

    assert products_s("grouped", "4") < 0.5 * products_s("looped", "4")


def test_the_computation_of_experts_does_not_change_a_dense_model() -> None:
    dense = {"model": "llama-3-8b"}
    assert step("looped", **dense).total == pytest.approx(step("grouped", **dense).total)


def test_hugging_face_and_own_programs_loop_and_megatron_does_not() -> None:
    looped = {row.id for row in load_stacks().values() if row.experts == "looped"}
    assert {"torch", "hf-trainer", "trl", "llama-factory", "axolotl"} <= looped
    assert not looped & {"megatron-core", "mlperf", "xtuner", "torchtitan", "maxtext"}


def test_stated_expert_parallelism_means_an_extension_that_groups_experts() -> None:
    trainer = {"stack": "hf-trainer", "task": "sft"}
    assert step("", **trainer, ep="1") == step("grouped", **trainer)
    assert step("", **trainer) == step("looped", **trainer)
    # The exchange of tokens waits on the host, and plain torch has no extension.
    assert step("", **trainer, ep="2") == step("looped", **trainer, ep="2")
    assert step("", ep="1") == step("looped")


def test_notes_state_how_tokens_are_divided_and_how_experts_are_computed() -> None:
    def notes(**changes: str) -> str:
        return "; ".join(resolve(case_of_row({**ROW, **changes})).assumed)

    assert "the busiest rank is taken to get 1 times the mean of all tokens" in notes(ep="8")
    assert "busiest" not in notes()
    assert "one after the other" in notes()
    assert "an extension of Hugging Face Trainer computes them together" in notes(stack="hf-trainer", ep="1")
    assert "experts" not in notes(model="llama-3-8b")
    assert "experts" not in notes(model="llama-3-8b", stack="hf-trainer", ep="1")
    assert "one after the other" not in notes(stack="megatron-core", sharding="zero1", ep="8")


def test_unequal_experts_lengthen_the_step_only_where_ranks_have_different_experts() -> None:
    spread, whole = step(ep="8").total, step().total
    with trying({"time.expert_imbalance": 2.0}):
        assert step(ep="8").total > 1.02 * spread
        assert step().total == pytest.approx(whole)


def test_experts_that_replicas_spread_are_gathered_by_each_shard_group() -> None:
    few = step(n_gpus="8", gpus_per_node="4", fsdp="2", ep="4", global_batch="8")
    kept = step(n_gpus="8", gpus_per_node="4", sharding="ddp", ep="4", global_batch="8")
    assert few.exposed_communication > 1.8 * kept.exposed_communication
