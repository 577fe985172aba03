"""Measure reads in the folder that contains the data: `read_bandwidth_bytes_per_s`, `read_rate_per_s`.

The full suite adds `write_bandwidth_bytes_per_s`. Sequential blocks of 1 MiB represent files of records.
Random blocks of 128 KiB represent images. The full suite also reads random blocks of 4 KiB, which show the
operations per second of the device. `direct` is false if the file system has no O_DIRECT. The file's
pages are then dropped from the page cache before a case and after each read, which is less strict.
"""

from pathlib import PurePosixPath

import msgspec

from probes.base.units import GIB, KIB, MIB
from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, DoneLine, LinesByRank, Outcome
from probes.facts.measurements import Measurement

_SUBJECT = "storage"
_DEPTH = 16
"""Number of outstanding requests: several NVMe devices or servers in parallel need several requests each."""
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
    """Return one request whose cases run one after the other, because simultaneous cases would compete for
    the file system.
    """
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the bandwidth of every case, and the requests per second of random cases."""
    # At its end the worker reports file system, device and file size.
    lines = lines_by_rank.get(0, ())
    at_end = next((line.conditions for line in lines if isinstance(line, DoneLine)), {})
    measurements: list[Measurement] = []
    for answer in case_answers(request, lines_by_rank):
        case, figures = answer.case, answer.sample.figures
        parameters = {
            **case,
            "direct": bool(figures.get("direct")),
            "data_path": request.settings["data_path"],
        }
        operation = "write" if case["operation"] == "write" else "read"
        rows = [
            (f"{operation}_bandwidth_bytes_per_s", "byte/s", answer.rates(figures.get("bytes_per_call", 0.0)))
        ]
        if case["order"] == "random":
            rows.append((f"{operation}_rate_per_s", "1/s", answer.rates(1)))
        measurements += [
            answer.measurement(metric, unit, samples, parameters, subject=_SUBJECT)
            for metric, unit, samples in rows
        ]
    return tuple(
        msgspec.structs.replace(row, conditions={**at_end, **row.conditions}) for row in measurements
    ) or failure_of(request, lines_by_rank)
