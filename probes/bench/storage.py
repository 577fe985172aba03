"""Reading where the data lies: `read_bandwidth_bytes_per_s`, `read_rate_per_s`, and in full
`write_bandwidth_bytes_per_s`.

In order in blocks of 1 MiB, as files of records are read; at random in blocks of 128 KiB, about an image; in
the full suite at random in 4 KiB, which shows what the device can answer per second. `direct` false means
that the file system knows no O_DIRECT and the page cache had to be emptied before each read, which is not as
strict.
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
"""Requests outstanding at a time: several NVMe devices or servers in parallel need more than one has."""
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
    """One request: requests to one file system compete, so the cases run one after the other."""
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
    """Bandwidth of every case, and requests per second of those at random."""
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
    """The first line with what the worker told at its end: file system, device, size of the file."""
    start = start_of(lines)
    end = next((line.conditions for line in lines if isinstance(line, DoneLine)), {})
    return start and StartLine(
        rank=start.rank, world_size=start.world_size, conditions={**end, **start.conditions}
    )
