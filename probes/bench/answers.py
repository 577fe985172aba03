"""Evaluate workers' answers: samples, subjects and failures, for all benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import msgspec

from probes.bench.bench_requests import BenchRequest, Case
from probes.bench.worker_answers import DoneLine, FailureLine, LinesByRank, SampleLine, StartLine, WorkerLine
from probes.facts.measurements import BenchFailure, Measurement, Parameter
from probes.judging.reporting import fold_names


def start_of(lines: tuple[WorkerLine, ...]) -> StartLine | None:
    return next((line for line in lines if isinstance(line, StartLine)), None)


def rank_subject(request: BenchRequest, start: StartLine, rank: int) -> str:
    """Return the device that a rank measures: `GPU3`, matched by the driver's UUID, or `CPU rank 1`."""
    return request.subjects.get(start.uuid) or (
        f"GPU{rank}" if request.device == "cuda" else f"CPU rank {rank}"
    )


def samples_of(request: BenchRequest, lines: tuple[WorkerLine, ...]) -> Iterator[SampleLine]:
    """Yield the sample lines that answer a case of the request with durations that a clock can give."""
    for line in lines:
        if not isinstance(line, SampleLine) or line.case not in request.cases or not line.durations_s:
            continue
        if all(math.isfinite(duration_s) and duration_s > 0 for duration_s in line.durations_s):
            yield line


def per_rank(
    request: BenchRequest, lines_by_rank: LinesByRank, metric: str, unit: str, work: Callable[[Case], float]
) -> tuple[Measurement, ...] | BenchFailure:
    """Return one rate per rank and case, for benchmarks whose ranks work alone.

    `work` returns the work of a case (flop, bytes); the rate is work per second.
    """
    measurements = []
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        if start is None:
            continue
        subject = rank_subject(request, start, rank)
        for sample in samples_of(request, lines):
            rates = tuple(work(sample.case) / duration_s for duration_s in sample.durations_s)
            measurements.append(
                measurement(request, start, sample.case, metric, unit=unit, samples=rates, subject=subject)
            )
    return tuple(measurements) or failure_of(request, lines_by_rank)


def slowest_rank(
    request: BenchRequest, lines_by_rank: LinesByRank
) -> Iterator[tuple[StartLine, Case, tuple[float, ...], dict[str, float]]]:
    """Yield each case that all ranks answered, for benchmarks whose ranks wait for each other.

    The values are the first rank's start, the case, the slowest rank's duration of each sample, and the
    largest value of each figure over the ranks.
    """
    start = start_of(lines_by_rank.get(0, ()))
    if start is None or len(lines_by_rank) < request.ranks:
        return
    answers = [tuple(samples_of(request, lines)) for _, lines in sorted(lines_by_rank.items())]
    for case in request.cases:
        together = [sample for answer in answers for sample in answer if sample.case == case]
        if len(together) < request.ranks:
            continue
        durations_s = tuple(
            max(row) for row in zip(*(sample.durations_s for sample in together), strict=False)
        )
        names = set.intersection(*(set(sample.figures) for sample in together))
        yield (
            start,
            case,
            durations_s,
            {name: max(sample.figures[name] for sample in together) for name in sorted(names)},
        )


def measurement(
    request: BenchRequest,
    start: StartLine,
    parameters: Mapping[str, Parameter],
    metric: str,
    *,
    unit: str,
    samples: tuple[float, ...],
    subject: str = "",
) -> Measurement:
    """Return a measurement of the request (by default of all its ranks) with the worker's conditions."""
    return Measurement(
        bench_id=request.bench_id,
        subject=subject or request.subject,
        metric=metric,
        unit=unit,
        samples=samples,
        parameters=dict(parameters),
        conditions={**start.conditions, "concurrent_ranks": request.ranks},
    )


def timing_of(measurement: Measurement, lines_by_rank: LinesByRank) -> dict[str, Parameter]:
    """Return how the timing of the measurement's case went, as the largest of each figure over ranks.

    The figures are `warmup_calls` and `calls_per_sample`; `interval_half_width`, the half width of the 95 %
    confidence interval of the median as a fraction of the median; `budget_spent`, true if the time ended
    before the interval was narrow; `unsettled`, true if the durations kept rising or falling. Empty if the
    measurement combines several cases.
    """
    samples = [line for lines in lines_by_rank.values() for line in lines if isinstance(line, SampleLine)]
    figures = [
        line.figures for line in samples if line.case and line.case.items() <= measurement.parameters.items()
    ]
    largest = {name: max(row[name] for row in figures if name in row) for name in set().union(*figures)}
    counts: dict[str, Parameter] = {
        name: int(largest[name]) for name in ("warmup_calls", "calls_per_sample") if name in largest
    }
    if "interval_half_width" in largest:
        counts["interval_half_width"] = round(largest["interval_half_width"], 4)
    return {
        **counts,
        **{name: largest[name] > 0 for name in ("budget_spent", "unsettled") if name in largest},
    }


def complete(request: BenchRequest, lines_by_rank: LinesByRank) -> bool:
    """Return True if every rank wrote its last line."""
    has_done_line = [any(isinstance(line, DoneLine) for line in lines) for lines in lines_by_rank.values()]
    return len(has_done_line) >= request.ranks and all(has_done_line)


def failures_of(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[BenchFailure, ...]:
    """Return every failure that the workers reported, each once."""
    return _failures_where(request, lines_by_rank, lambda _: True)


def case_failures_of(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[BenchFailure, ...]:
    """Return the failures of single cases, after which the worker continued."""
    return _failures_where(request, lines_by_rank, lambda line: bool(line.case))


def worker_failures_of(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[BenchFailure, ...]:
    """Return the failures that ended a worker."""
    return _failures_where(request, lines_by_rank, lambda line: not line.case)


def _failures_where(
    request: BenchRequest, lines_by_rank: LinesByRank, wanted: Callable[[FailureLine], bool]
) -> tuple[BenchFailure, ...]:
    subjects_by_failure: dict[tuple[str, str], dict[str, None]] = {}
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        for line in lines:
            if isinstance(line, FailureLine) and wanted(line):
                case = ", ".join(f"{name} {value}" for name, value in line.case.items())
                message = " ".join((f"{line.message} ({case})" if case else line.message).split())
                reporter = _ends_of(line.case) or (
                    rank_subject(request, start, rank) if start is not None else ""
                )
                subjects_by_failure.setdefault((line.kind, message), {})[reporter] = None
    return tuple(
        msgspec.structs.replace(request.failure(kind, message), subject=_subject_of(request, tuple(reporter)))
        for (kind, message), reporter in subjects_by_failure.items()
    )


def _ends_of(case: Case) -> str:
    """Return the two ends of a case, such as `GPU0-GPU1`, regardless of direction."""
    ends = [str(case[end]) for end in ("from", "to") if end in case]
    return "-".join(sorted(ends, key=lambda name: (len(name), name))) if len(ends) == 2 else ""


def _subject_of(request: BenchRequest, reporters: tuple[str, ...]) -> str:
    """Return the reporters of a failure, or the whole request if all ranks reported it."""
    if not all(reporters) or len(reporters) == request.ranks > 1:
        return request.subject
    is_named = request.ranks > 1 or "-" in reporters[0]
    return fold_names(list(reporters)) if is_named else request.subject


def failure_of(request: BenchRequest, lines_by_rank: LinesByRank) -> BenchFailure:
    """Return the reason why there is no measurement at all."""
    failures = failures_of(request, lines_by_rank)
    return failures[0] if failures else request.failure("incomplete", "the worker ended without a sample")
