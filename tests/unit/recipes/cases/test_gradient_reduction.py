"""Reduction of gradients by ranks that share optimizer states: nested by node, in the program's buckets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.speed.step import step_time
from recipes.predict.stacks import Stack, load_stacks
from recipes.predict.training_job import transformer_job

ROW = {
    "model": "llama-2-7b",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "512",
    "gpus_per_node": "8",
    "interconnect_inter": "100GbE",
    "sharding": "zero1",
    "micro_batch": "1",
    "grad_accum": "1",
    "stack": "deepspeed",
}


def exposed_s(optimizer: str = "adamw", stack: Stack | None = None, **changes: object) -> float:
    case = resolve(case_of_row({**ROW, "optimizer": optimizer}))
    time = step_time(
        transformer_job(case.workload, case.candidate, case.cluster, replace(stack or case.stack, **changes))
    )
    assert isinstance(time, TimeBreakdown)
    assert isinstance(time.exposed_communication, float)
    return time.exposed_communication


def test_a_ring_over_all_ranks_scatters_and_gathers_unless_the_program_nests_its_lamb() -> None:
    flat = exposed_s("lamb", nests_lamb=False)
    assert exposed_s("lamb", nests_lamb=True) < 0.95 * flat
    assert exposed_s(nests_lamb=True) == pytest.approx(exposed_s(nests_lamb=False))
    assert [row.id for row in load_stacks().values() if row.nests_lamb] == ["mlperf"]


def test_a_flat_reduction_sends_gradients_and_weights_over_each_nodes_network() -> None:
    # Gradients and then weights of 6.7 billion parameters, 2 bytes each, at 12.5 GB/s. Only the gather of
    # the weights overlaps with computation.
    assert exposed_s() > 2 * 6.74e9 / 12.5e9


def test_buckets_that_grow_with_the_ranks_keep_a_rings_latency_small() -> None:
    own = load_stacks()["megatron-core"]
    assert exposed_s(stack=own) < 0.9 * exposed_s(stack=own, bucket_elements_per_rank=0.0)


@pytest.mark.parametrize("stack", ["megatron-core", "mlperf", "xtuner"])
def test_a_step_of_8b_stays_nearly_flat_from_64_to_1024_gpus(stack) -> None:
    """Megatron-LM core/distributed: buckets of the larger of 40 million parameters and 1 million per rank."""
    few, many = (
        step_time(
            resolve(
                case_of_row(
                    {
                        **ROW,
                        "model": "llama-3-8b",
                        "gpu": "B200-SXM",
                        "n_gpus": gpus,
                        "interconnect_inter": "",
                        "precision": "fp8",
                        "stack": stack,
                    }
                )
            ).job
        ).total
        for gpus in ("64", "1024")
    )
    assert few < many < 1.2 * few


def test_deepspeed_under_megatron_reduces_half_a_billion_gradients_at_a_time() -> None:
    own = load_stacks()["megatron-deepspeed"]
    small = replace(own, memory=replace(own.memory, bucket_elements=0.0))
    assert exposed_s(stack=own) < 0.9 * exposed_s(stack=small)
