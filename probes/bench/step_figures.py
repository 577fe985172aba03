"""Compute the figures of every timed training step."""

from __future__ import annotations

from collections.abc import Mapping

from probes.base.record import Record
from probes.bench.answers import measurement
from probes.bench.bench_requests import BenchRequest
from probes.bench.worker_answers import StartLine
from probes.facts.measurements import Measurement, Parameter


class StepWork(Record, kw_only=True):
    """The work of one step."""

    items: dict[str, float] = {}
    """Tokens, images or samples of a step, over all ranks."""
    rank_flops: float = 0.0
    """Model FLOPs of one rank; 0 if unknown."""


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
    """Return `step_time_s`, the ranks' common rates, the FLOP rate of one rank, and its peak memory."""
    figures_of_step = [("step_time_s", "s", durations_s)]
    for name, unit in _ITEMS.items():
        if items := work.items.get(name, 0.0):
            figures_of_step.append(
                (f"{name}_per_s", unit, tuple(items / duration_s for duration_s in durations_s))
            )
    if work.rank_flops:
        figures_of_step.append(
            ("model_flops_per_s", "flop/s", tuple(work.rank_flops / duration_s for duration_s in durations_s))
        )
    figures_of_step += [(name, "byte", (figures[name],)) for name in _PEAKS if name in figures]
    return tuple(
        measurement(request, start, parameters, metric, unit=unit, samples=samples)
        for metric, unit, samples in figures_of_step
    )
