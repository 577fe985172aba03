"""Measure the start of a small operation: `launch_latency_s`, queued and with a wait for each.

`asynchronous` is the time that a launch adds to a queue of launches; it limits how small kernels can be
before the CPU delays the GPU. `synchronous` is the time of a round trip. A CPU has only the latter: torch's
dispatch and the operation itself.
"""

from __future__ import annotations

from probes.bench.answers import failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.local import case_answers, on_every_device
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement

_KINDS = {"cuda": ("asynchronous", "synchronous"), "cpu": ("synchronous",)}
_BUDGET_S = {"quick": 0.5, "full": 2.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request in which all ranks launch at the same time: their processes share the CPUs."""
    cases: tuple[Case, ...] = tuple({"kind": kind} for kind in _KINDS[context.device])
    return (
        on_every_device(
            context, "launch-latency", "launch latency", budget_s=_BUDGET_S[context.suite], cases=cases
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the time of every rank and kind."""
    measurements = tuple(
        answer.measurement("launch_latency_s", "s", answer.sample.durations_s)
        for answer in case_answers(request, lines_by_rank)
    )
    return measurements or failure_of(request, lines_by_rank)
