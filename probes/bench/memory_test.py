"""Write patterns to memory and read them back: `memory_errors` is the number of wrong words by pattern.

A single error proves a fault.
"""

from probes.base.units import MIB
from probes.bench.answers import case_answers, failure_of, with_conditions
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome

_PATTERNS = ("walking_ones", "walking_zeros", "address", "random_and_inverse", "moving_inversions")
"""Patterns of memtest86 that can be tested by passes over the whole memory."""
_MOST_BYTES = {"cuda": 0, "cpu": 256 * MIB}
"""Maximum number of bytes per rank; 0: all memory except the part that must stay free.

Only a part of the host's memory is tested, because other programs use it too.
"""
_BUDGET_S = {"cuda": 40.0, "cpu": 20.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request; passes of a pattern beyond the time limit are omitted."""
    cases: tuple[Case, ...] = tuple({"pattern": pattern} for pattern in _PATTERNS)
    return (
        context.on_every_device(
            "memory-test",
            "memory test",
            budget_s=_BUDGET_S[context.device],
            cases=cases,
            settings={"most_bytes": _MOST_BYTES[context.device]},
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the errors of every rank and pattern; size and passes are among the conditions."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        figures = answer.sample.figures
        if "memory_errors" in figures:
            errors = answer.measurement("memory_errors", "1", (figures["memory_errors"],))
            extent: Case = {name: figures[name] for name in ("tested_bytes", "passes") if name in figures}
            measurements.append(with_conditions(errors, extent))
    return tuple(measurements) or failure_of(request, lines_by_rank)
