"""Measure the start of a small operation, `launch_latency_s`: queued, and with a wait for each operation.

`asynchronous` is the time that a launch adds to a queue of launches; the CPU delays the GPU if kernels take
less than this time. `synchronous` is the time of a round trip. A CPU has only a synchronous time, which
consists of torch's dispatch and the operation itself.
"""

from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome

_KINDS = {"cuda": ("asynchronous", "synchronous"), "cpu": ("synchronous",)}
_BUDGET_S = {"quick": 0.5, "full": 2.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request in which all ranks launch together, because their processes share the CPUs."""
    cases: tuple[Case, ...] = tuple({"kind": kind} for kind in _KINDS[context.device])
    return (
        context.on_every_device(
            "launch-latency", "launch latency", budget_s=_BUDGET_S[context.suite], cases=cases
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the time of every rank and kind."""
    measurements = tuple(
        answer.measurement("launch_latency_s", "s", answer.sample.durations_s)
        for answer in case_answers(request, lines_by_rank)
    )
    return measurements or failure_of(request, lines_by_rank)
