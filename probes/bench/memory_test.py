"""Write patterns to memory and read them back: `memory_errors`, the wrong words by pattern.

A single error is a fault.
"""

from __future__ import annotations

import msgspec

from probes.base.units import MIB
from probes.bench.answers import failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.local import case_answers, on_every_device
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement

_PATTERNS = ("walking_ones", "walking_zeros", "address", "random_and_inverse", "moving_inversions")
"""Patterns of memtest86 that can be tested by passes over whole memory."""
_MOST_BYTES = {"cuda": 0, "cpu": 256 * MIB}
"""Most bytes per rank; 0 for no limit except the memory that must stay free.

Only a part of the host's memory is tested, because other programs use it too.
"""
_BUDGET_S = {"cuda": 40.0, "cpu": 20.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request; passes of a pattern beyond the time limit are omitted."""
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
    """Return the errors of every rank and pattern; size and passes are among the conditions."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        figures = answer.sample.figures
        if "memory_errors" in figures:
            errors = answer.measurement("memory_errors", "1", (figures["memory_errors"],))
            extent = {name: figures[name] for name in ("tested_bytes", "passes") if name in figures}
            measurements.append(msgspec.structs.replace(errors, conditions={**errors.conditions, **extent}))
    return tuple(measurements) or failure_of(request, lines_by_rank)
