"""Test requests and results of the launch latency."""

from __future__ import annotations

from probes.bench.launch_latency import interpret
from tests.support.bench_answers import answer, requests, the_one


def test_a_gpu_has_both_kinds_and_a_cpu_only_the_one_that_waits():
    assert [case["kind"] for case in requests("launch-latency", "cuda")[0].cases] == [
        "asynchronous",
        "synchronous",
    ]
    assert [case["kind"] for case in requests("launch-latency", "cpu")[0].cases] == ["synchronous"]


def test_the_times_of_each_rank_are_reported_unchanged():
    (request,) = requests("launch-latency", "cuda", 2)
    times = {"asynchronous": (4e-6,), "synchronous": (1e-5, 2e-5)}
    lines = {rank: answer(request, rank, lambda case: times[case["kind"]]) for rank in range(2)}
    measurements = interpret(request, lines)
    assert {m.subject for m in measurements} == {"GPU0", "GPU1"}
    waited = the_one([m for m in measurements if m.subject == "GPU1"], "launch_latency_s", kind="synchronous")
    assert (waited.samples, waited.unit) == ((1e-5, 2e-5), "s")
