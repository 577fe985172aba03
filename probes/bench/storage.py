"""Measure reads at the place of the data: `read_bandwidth_bytes_per_s`, `read_rate_per_s`.

The full suite adds `write_bandwidth_bytes_per_s`. Sequential blocks of 1 MiB represent files of records,
random blocks of 128 KiB images; random blocks of 4 KiB in the full suite show the operations per second of
the device. `direct` false means that the file system has no O_DIRECT and the page cache was emptied before
each read, which is less strict.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from probes.base.units import GIB, KIB, MIB
from probes.bench.answers import failure_of, measurement, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.worker_answers import DoneLine, LinesByRank, StartLine, WorkerLine
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_SUBJECT = "storage"
_DEPTH = 16
"""Outstanding requests: several NVMe devices or servers in parallel need more than one request each."""
_IN_ORDER: Case = {"operation": "read", "order": "sequential", "block_bytes": MIB, "queue_depth": _DEPTH}
_AT_RANDOM: Case = {
    "operation": "read",
    "order": "random",
    "block_bytes": 128 * KIB,
    "queue_depth": 2 * _DEPTH,
}
_SMALL: Case = {"operation": "read", "order": "random", "block_bytes": 4 * KIB, "queue_depth": 4 * _DEPTH}
_FILES: Case = {"operation": "read_files", "order": "random", "queue_depth": _DEPTH}
_WRITE: Case = {"operation": "write", "order": "sequential", "block_bytes": MIB, "queue_depth": _DEPTH}
_FILE_BYTES = {"quick": GIB, "full": 4 * GIB}
_BUDGET_S = {"quick": 7.0, "full": 30.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request whose cases run in turn, because they would compete for the file system."""
    path = str(PurePosixPath(context.settings.folder or ".") / context.settings.data_path)
    cases = (_IN_ORDER, _AT_RANDOM) if context.suite == "quick" else (_IN_ORDER, _AT_RANDOM, _SMALL, _WRITE)
    return (
        BenchRequest(
            bench_id="storage",
            title=f"reading at {path}",
            device="cpu",
            backend="gloo",
            ranks=1,
            threads_per_rank=1,
            budget_s=_BUDGET_S[context.suite],
            cases=(*cases, _FILES) if context.settings.data_path else cases,
            settings={
                "data_path": path,
                "file_bytes": _FILE_BYTES[context.suite],
            },
            needs_torch=False,
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the bandwidth of every case, and the requests per second of random cases."""
    lines = lines_by_rank.get(0, ())
    start = _start_with_surroundings(lines)
    if start is None:
        return failure_of(request, lines_by_rank)
    measurements: list[Measurement] = []
    for sample in samples_of(request, lines):
        parameters: dict[str, Parameter] = {
            **sample.case,
            "direct": bool(sample.figures.get("direct")),
            "data_path": request.settings["data_path"],
        }
        rates = tuple(1 / duration_s for duration_s in sample.durations_s)
        bandwidths = tuple(rate * sample.figures.get("bytes_per_call", 0.0) for rate in rates)
        operation = "write" if sample.case["operation"] == "write" else "read"
        figures = [(f"{operation}_bandwidth_bytes_per_s", "byte/s", bandwidths)]
        if sample.case["order"] == "random":
            figures.append((f"{operation}_rate_per_s", "1/s", rates))
        measurements += [
            measurement(request, start, parameters, metric, unit=unit, samples=samples, subject=_SUBJECT)
            for metric, unit, samples in figures
        ]
    return tuple(measurements) or failure_of(request, lines_by_rank)


def _start_with_surroundings(lines: tuple[WorkerLine, ...]) -> StartLine | None:
    """Return the start line with the conditions that the worker reported at its end.

    The conditions are file system, device and size of the file.
    """
    start = start_of(lines)
    end = next((line.conditions for line in lines if isinstance(line, DoneLine)), {})
    return start and StartLine(
        rank=start.rank, world_size=start.world_size, conditions={**end, **start.conditions}
    )
