"""Evaluate workers' answers: samples, subjects, measurements and failures, for all benchmarks."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from probes.base.record import Record
from probes.bench.bench_requests import (
    BenchRequest,
    Case,
    DoneLine,
    FailureLine,
    LinesByRank,
    Outcome,
    SampleLine,
    StartLine,
    WorkerLine,
)
from probes.facts.measurements import BenchFailure, Measurement, Parameter
from probes.judging.reporting import fold_names

_ITEMS = {"tokens": "token/s", "images": "image/s", "samples": "sample/s"}
_PEAKS = ("peak_memory_bytes", "peak_reserved_bytes")


class CaseAnswer(NamedTuple):
    """The samples of one case, from one rank or from the slowest of all ranks."""

    request: BenchRequest
    start: StartLine
    subject: str
    """The measured device or group, such as `GPU3` or `2 ranks`."""
    sample: SampleLine

    @property
    def case(self) -> Case:
        return self.sample.case

    def rates(self, work: float) -> tuple[float, ...]:
        """Return the rate of each sample: the `work` of one call (flop, bytes) per second."""
        return tuple(work / duration_s for duration_s in self.sample.durations_s)

    def measurement(
        self,
        metric: str,
        unit: str,
        samples: tuple[float, ...],
        parameters: Mapping[str, Parameter] | None = None,
        *,
        subject: str = "",
    ) -> Measurement:
        """Return a measurement with the worker's conditions.

        The default of `parameters` is the case, and the default of `subject` is the subject of this answer.
        """
        return Measurement(
            bench_id=self.request.bench_id,
            subject=subject or self.subject,
            metric=metric,
            unit=unit,
            samples=samples,
            parameters=dict(self.case if parameters is None else parameters),
            conditions={**self.start.conditions, "concurrent_ranks": self.request.ranks},
        )


def start_of(lines: tuple[WorkerLine, ...]) -> StartLine | None:
    return next((line for line in lines if isinstance(line, StartLine)), None)


def rank_subject(request: BenchRequest, start: StartLine, rank: int) -> str:
    """Return the device that a rank measures: `GPU3`, matched by the driver's UUID, or `CPU rank 1`.

    If the UUID is unknown, the GPU is assumed to have the number of the rank.
    """
    return request.subjects.get(start.uuid) or (
        f"GPU{rank}" if request.device == "cuda" else f"CPU rank {rank}"
    )


def samples_of(request: BenchRequest, lines: tuple[WorkerLine, ...]) -> Iterator[SampleLine]:
    """Yield the sample lines that answer a case of the request and have possible durations."""
    for line in lines:
        if not isinstance(line, SampleLine) or line.case not in request.cases or not line.durations_s:
            continue
        if all(math.isfinite(duration_s) and duration_s > 0 for duration_s in line.durations_s):
            yield line


def case_answers(request: BenchRequest, lines_by_rank: LinesByRank) -> Iterator[CaseAnswer]:
    """Yield every case that a rank answered, for benchmarks whose ranks work alone."""
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        if start is not None:
            subject = rank_subject(request, start, rank)
            yield from (CaseAnswer(request, start, subject, sample) for sample in samples_of(request, lines))


def per_rank(
    request: BenchRequest, lines_by_rank: LinesByRank, metric: str, unit: str, work: Callable[[Case], float]
) -> Outcome:
    """Return one rate per rank and case, for benchmarks whose ranks work alone.

    `work` returns the work of a case (flop, bytes). The rate is the work per second.
    """
    measurements = tuple(
        answer.measurement(metric, unit, answer.rates(work(answer.case)))
        for answer in case_answers(request, lines_by_rank)
    )
    return measurements or failure_of(request, lines_by_rank)


def slowest_rank(request: BenchRequest, lines_by_rank: LinesByRank) -> Iterator[CaseAnswer]:
    """Yield each case that all ranks answered, for benchmarks whose ranks wait for each other.

    Each sample has the duration of its slowest rank, and each figure is the largest of all ranks.
    """
    start = start_of(lines_by_rank.get(0, ()))
    if start is None or len(lines_by_rank) < request.ranks:
        return
    answers = [tuple(samples_of(request, lines)) for _, lines in sorted(lines_by_rank.items())]
    for case in request.cases:
        together = [sample for answer in answers for sample in answer if sample.case == case]
        if len(together) < request.ranks:
            continue
        durations_s = map(max, zip(*(sample.durations_s for sample in together), strict=False))
        names = set.intersection(*(set(sample.figures) for sample in together))
        figures = {name: max(sample.figures[name] for sample in together) for name in sorted(names)}
        slowest = SampleLine(case=case, durations_s=tuple(durations_s), figures=figures)
        yield CaseAnswer(request, start, request.subject, slowest)


class StepWork(Record, kw_only=True):
    """The work of one training step."""

    items: Mapping[str, float] = {}
    """Tokens, images or samples of a step, over all ranks."""
    rank_flops: float = 0.0
    """Model FLOPs of one rank; 0 if unknown."""


def step_figures(
    answer: CaseAnswer, parameters: Mapping[str, Parameter], work: StepWork
) -> tuple[Measurement, ...]:
    """Return step time, rates of all ranks together (tokens/s), and FLOP rate and peak memory of a rank."""
    rows = [("step_time_s", "s", answer.sample.durations_s)]
    rows += [
        (f"{name}_per_s", unit, answer.rates(work.items[name]))
        for name, unit in _ITEMS.items()
        if work.items.get(name)
    ]
    if work.rank_flops:
        rows.append(("model_flops_per_s", "flop/s", answer.rates(work.rank_flops)))
    figures = answer.sample.figures
    rows += [(name, "byte", (figures[name],)) for name in _PEAKS if name in figures]
    return tuple(answer.measurement(metric, unit, samples, parameters) for metric, unit, samples in rows)


def with_conditions(measurement: Measurement, conditions: Mapping[str, Parameter]) -> Measurement:
    """Return the measurement with additional conditions; these replace conditions of the same name."""
    return msgspec.structs.replace(measurement, conditions={**measurement.conditions, **conditions})


def timing_of(measurement: Measurement, lines_by_rank: LinesByRank) -> dict[str, Parameter]:
    """Return the timing of the measurement's case, each figure as the largest over ranks.

    The figures are `warmup_calls` and `calls_per_sample`; `interval_half_width`, the half width of the 95 %
    confidence interval of the median as a fraction of the median; `budget_spent`, true if the time ended
    before the interval was narrow; `unsettled`, true if the durations kept rising or falling. The result is
    empty if the measurement combines several cases.
    """
    figures = [
        line.figures
        for lines in lines_by_rank.values()
        for line in lines
        if isinstance(line, SampleLine) and line.case and line.case.items() <= measurement.parameters.items()
    ]
    largest = {name: max(row[name] for row in figures if name in row) for name in set().union(*figures)}
    convert: dict[str, Callable[[float], Parameter]] = {
        "warmup_calls": int,
        "calls_per_sample": int,
        "interval_half_width": lambda width: round(width, 4),
        "budget_spent": bool,
        "unsettled": bool,
    }
    return {name: as_parameter(largest[name]) for name, as_parameter in convert.items() if name in largest}


def complete(request: BenchRequest, lines_by_rank: LinesByRank) -> bool:
    """Return True if every rank wrote its last line."""
    has_done_line = [any(isinstance(line, DoneLine) for line in lines) for lines in lines_by_rank.values()]
    return len(has_done_line) >= request.ranks and all(has_done_line)


def failures_of(
    request: BenchRequest,
    lines_by_rank: LinesByRank,
    wanted: Callable[[FailureLine], bool] = lambda _: True,
) -> tuple[BenchFailure, ...]:
    """Return every failure that the workers reported and for which `wanted` returns True, without duplicates.

    A failure with a case concerns only this case; a failure without a case ended its worker.
    """
    subjects_by_failure: dict[tuple[str, str], dict[str, None]] = {}
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        for line in lines:
            if isinstance(line, FailureLine) and wanted(line):
                case = ", ".join(f"{name} {value}" for name, value in line.case.items())
                message = " ".join((f"{line.message} ({case})" if case else line.message).split())
                reporter = ends_of(line.case) or (
                    rank_subject(request, start, rank) if start is not None else ""
                )
                subjects_by_failure.setdefault((line.kind, message), {})[reporter] = None
    return tuple(
        msgspec.structs.replace(
            request.failure(kind, message), subject=_subject_of(request, tuple(reporters))
        )
        for (kind, message), reporters in subjects_by_failure.items()
    )


def ends_of(case: Case) -> str:
    """Return the two ends of a case, such as `GPU0-GPU1`, regardless of direction; empty without ends."""
    ends = [str(case[end]) for end in ("from", "to") if end in case]
    return "-".join(sorted(ends, key=lambda name: (len(name), name))) if len(ends) == 2 else ""


def _subject_of(request: BenchRequest, reporters: tuple[str, ...]) -> str:
    """Return the reporters of a failure, or the whole request if all ranks or unknown ranks reported it."""
    if not all(reporters) or len(reporters) == request.ranks > 1:
        return request.subject
    return fold_names(list(reporters)) if request.ranks > 1 or "-" in reporters[0] else request.subject


def failure_of(request: BenchRequest, lines_by_rank: LinesByRank) -> BenchFailure:
    """Return the reason why there is no measurement at all."""
    failures = failures_of(request, lines_by_rank)
    return failures[0] if failures else request.failure("incomplete", "no case has a complete answer")
