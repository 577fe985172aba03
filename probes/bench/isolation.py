"""All-reduce over NVLink alone, over NICs alone, and over all: which layer is slow: not built yet."""

from __future__ import annotations

from probes.benching import BenchContext, BenchRequest
from probes.measurements import BenchFailure, Measurement
from probes.parsers.worker_lines import LinesByRank


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    return ()


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    return ()
