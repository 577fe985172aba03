"""Matrix multiplication rate of the CPUs beside the GPUs: not built yet."""

from __future__ import annotations

from probes.benching import BenchContext, BenchRequest
from probes.measurements import BenchFailure, Measurement
from probes.parsers.worker_lines import LinesByRank


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    return ()


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    return ()
