"""What starting one small operation costs: `launch_latency_s`, one after the other and waiting for each.

`asynchronous` is what a launch adds to a stream of them, which bounds how small kernels can get before the
CPU holds the GPU up; `synchronous` is the way there and back. On a CPU there is only the second, torch's
dispatch and the operation itself.
"""

from __future__ import annotations

from probes.bench.answers import failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.local import answered, on_every_device
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement

_KINDS = {"cuda": ("asynchronous", "synchronous"), "cpu": ("synchronous",)}
_BUDGET_S = {"quick": 0.5, "full": 2.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request in which all ranks launch at the same time: their processes share the CPUs."""
    cases: tuple[Case, ...] = tuple({"kind": kind} for kind in _KINDS[context.device])
    return (
        on_every_device(
            context, "launch-latency", "launch latency", budget_s=_BUDGET_S[context.suite], cases=cases
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The time of every rank and kind."""
    measurements = tuple(
        found.measurement("launch_latency_s", "s", found.sample.durations_s)
        for found in answered(request, lines_by_rank)
    )
    return measurements or failure_of(request, lines_by_rank)
