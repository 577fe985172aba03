"""The figures that every timed training step gives."""

from __future__ import annotations

from collections.abc import Mapping

from probes.base.record import Record
from probes.bench.answers import measurement
from probes.bench.bench_requests import BenchRequest
from probes.bench.worker_answers import StartLine
from probes.facts.measurements import Measurement, Parameter


class StepWork(Record, kw_only=True):
    """What one step does."""

    items: dict[str, float] = {}
    """Over all ranks: how many tokens, images or samples it trains on."""
    rank_flops: float = 0.0
    """Model FLOPs of one rank; 0 where they are not known."""


_ITEMS = {"tokens": "token/s", "images": "image/s", "samples": "sample/s"}
_PEAKS = ("peak_memory_bytes", "peak_reserved_bytes")


def step_figures(
    request: BenchRequest,
    start: StartLine,
    parameters: Mapping[str, Parameter],
    work: StepWork,
    *,
    durations_s: tuple[float, ...],
    figures: Mapping[str, float],
) -> tuple[Measurement, ...]:
    """`step_time_s`, what the ranks together get through per second, the FLOP rate of one rank, and its peak
    memory.
    """
    found = [("step_time_s", "s", durations_s)]
    for name, unit in _ITEMS.items():
        if items := work.items.get(name, 0.0):
            found.append((f"{name}_per_s", unit, tuple(items / duration_s for duration_s in durations_s)))
    if work.rank_flops:
        found.append(
            ("model_flops_per_s", "flop/s", tuple(work.rank_flops / duration_s for duration_s in durations_s))
        )
    found += [(name, "byte", (figures[name],)) for name in _PEAKS if name in figures]
    return tuple(
        measurement(request, start, parameters, metric, unit=unit, samples=samples)
        for metric, unit, samples in found
    )
