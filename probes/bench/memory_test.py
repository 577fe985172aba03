"""Patterns written to memory and read back: `memory_errors`, the words that came back wrong, by pattern. One
is one too many.
"""

from __future__ import annotations

import msgspec

from probes.base.units import MIB
from probes.bench.answers import failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.local import answered, on_every_device
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement

_PATTERNS = ("walking_ones", "walking_zeros", "address", "random_and_inverse", "moving_inversions")
"""memtest86's, as far as whole passes over memory can make them."""
_MOST_BYTES = {"cuda": 0, "cpu": 256 * MIB}
"""Of each rank. 0 is no bound but what must stay free; of the host's memory, which others use too, a part is
tested.
"""
_BUDGET_S = {"cuda": 40.0, "cpu": 20.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request; what the time does not allow of a pattern's passes is left out."""
    cases: tuple[Case, ...] = tuple({"pattern": pattern} for pattern in _PATTERNS)
    settings = {"most_bytes": _MOST_BYTES[context.device]}
    return (
        on_every_device(
            context,
            "memory-test",
            "memory test",
            budget_s=_BUDGET_S[context.device],
            cases=cases,
            settings={**settings},
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The errors of every rank and pattern; how much memory was tested, and how often, are among the
    conditions.
    """
    measurements = []
    for found in answered(request, lines_by_rank):
        figures = found.sample.figures
        if "memory_errors" in figures:
            errors = found.measurement("memory_errors", "1", (figures["memory_errors"],))
            seen = {name: figures[name] for name in ("tested_bytes", "passes") if name in figures}
            measurements.append(msgspec.structs.replace(errors, conditions={**errors.conditions, **seen}))
    return tuple(measurements) or failure_of(request, lines_by_rank)
