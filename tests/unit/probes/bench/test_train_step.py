"""Test the reference transformer's step: the requested variants, and measurements from answers of ranks."""

from __future__ import annotations

import pytest

from probes.bench.train_step import interpret, requests
from tests.support.bench_answers import bench_context, lines_of, sample, the_one

VARIANTS = {("ddp", "none"), ("ddp", "full"), ("fsdp", "none"), ("fsdp", "full")}


def variants(request):
    return {(case["strategy"], case["activation_checkpointing"]) for case in request.cases}


@pytest.mark.parametrize(
    ("suite", "ranks", "expected"),
    [
        ("quick", 8, [(1, {("ddp", "none")}), (8, {("ddp", "none")})]),
        ("full", 8, [(1, {("ddp", "none"), ("ddp", "full")}), (8, VARIANTS)]),
        ("full", 1, [(1, {("ddp", "none"), ("ddp", "full")})]),
    ],
)
def test_the_full_suite_also_recomputes_and_shards_where_there_are_ranks_to_shard_over(
    suite, ranks, expected
):
    asked = requests(bench_context(ranks=ranks, suite=suite))
    assert [(request.ranks, variants(request)) for request in asked] == expected


def test_small_micro_batches_come_first_in_every_variant():
    for request in requests(bench_context(suite="full")):
        sizes = [case["micro_batch"] for case in request.cases]
        assert sizes == sorted(sizes)


def test_tokens_are_counted_over_all_ranks_and_flops_on_one():
    request = requests(bench_context(ranks=4))[-1]
    case = request.cases[0]
    lines = {
        rank: lines_of(
            request,
            sample(case, (0.5 - rank / 10,), peak_memory_bytes=100 + rank, peak_reserved_bytes=200.0),
            rank=rank,
        )
        for rank in range(4)
    }
    measured = interpret(request, lines)
    tokens = case["micro_batch"] * 128
    assert the_one(measured, "step_time_s", micro_batch=case["micro_batch"]).samples == (0.5,)
    assert the_one(measured, "tokens_per_s").samples == (4 * tokens / 0.5,)
    assert the_one(measured, "model_flops_per_s").samples == (1e6 * tokens / 0.5,)
    assert the_one(measured, "peak_memory_bytes").samples == (103.0,)
    assert the_one(measured, "peak_reserved_bytes").samples == (200.0,)
    assert {m.unit for m in measured} == {"s", "token/s", "flop/s", "byte"}
    assert all(m.parameters == {"model": "mini", **case, "world_size": 4} for m in measured)
