"""Measure the largest micro-batch that fits, and the fastest micro-batch, on one rank alone.

Every micro-batch that fits has `step_time_s`, its rate, `peak_memory_bytes` and more. The whole sweep gives
`largest_micro_batch`, `fastest_micro_batch`, and the fitted line `peak memory = fixed + per sample x
micro-batch` with its residual.
"""

from collections.abc import Iterator, Mapping, Sequence

from probes.base.record import Record
from probes.bench.answers import CaseAnswer, StepWork, failure_of, start_of, step_figures, with_conditions
from probes.bench.bench_requests import (
    BenchContext,
    BenchRequest,
    Case,
    LinesByRank,
    Outcome,
    SampleLine,
    StartLine,
    WorkerLine,
)
from probes.facts.measurements import Measurement

_BUDGET_S = {"quick": 25.0, "full": 80.0}
_TRIAL_S = 2.0
"""Seconds for the steps of one micro-batch."""
_AS_FAST = 0.98
"""A rate of at least this share of the best rate is equally fast, because smaller differences are noise.

Among equally fast micro-batches the smallest wins, because it leaves most memory free.
"""
_OUT_OF_MEMORY = "out_of_memory"
_RATES = ("tokens_per_s", "images_per_s", "samples_per_s")


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request: the user's own step if it has a micro-batch, otherwise the reference model."""
    model = context.model
    reference: Case = {
        "strategy": "ddp",
        "activation_checkpointing": "none",
        "sequence_length": model.shape["sequence_length"],
        "precision": model.precision,
    }
    own: tuple[Case, ...] = ({"step": context.settings.step},) if context.settings.step else ()
    return (
        BenchRequest(
            bench_id="micro-batch",
            title="micro-batches until the memory is full",
            device=context.device,
            backend=context.backend,
            ranks=1,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.suite],
            cases=(*own, reference),
            model=model.shape,
            flops_per_token=model.flops_per_token,
            settings={"folder": context.settings.folder, "trial_s": _TRIAL_S},
        ),
    )


class MemoryLine(Record, kw_only=True):
    """The fitted line of peak memory as a function of the micro-batch."""

    fixed_bytes: float
    per_sample_bytes: float
    residual: float
    """Largest error, relative to the measured value."""


def fit_memory(peak_bytes: Mapping[int, float]) -> MemoryLine | None:
    """Return the least squares fit of relative errors, so that all micro-batches have equal weight.

    The result is None for fewer than two sizes. If the peak of the smallest micro-batch comes from the
    optimizer and not from the activations, the residual is large.
    """
    points = [(float(size), peak) for size, peak in peak_bytes.items() if peak > 0]
    if len(points) < 2:
        return None
    weighted = [(1 / y**2, x, y) for x, y in points]
    total = sum(weight for weight, _, _ in weighted)
    mean_x = sum(weight * x for weight, x, _ in weighted) / total
    mean_y = sum(weight * y for weight, _, y in weighted) / total
    spread = sum(weight * (x - mean_x) ** 2 for weight, x, _ in weighted)
    slope = sum(weight * (x - mean_x) * (y - mean_y) for weight, x, y in weighted) / spread
    fixed = mean_y - slope * mean_x
    return MemoryLine(
        fixed_bytes=fixed,
        per_sample_bytes=slope,
        residual=max(abs(fixed + slope * x - y) / y for x, y in points),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the figures of each trial, and the figures of all trials together."""
    lines = lines_by_rank.get(0, ())
    start = start_of(lines)
    if start is None:
        return failure_of(request, lines_by_rank)
    for case in request.cases:
        trials = dict(_trials(case, lines))
        fits = {size: line for size, line in trials.items() if line.durations_s}
        if fits:
            fails = [
                size for size, line in trials.items() if line.figures.get(_OUT_OF_MEMORY) and size > max(fits)
            ]
            return _measurements(request, start, case, fits, smallest_that_fails=min(fails, default=0))
        if trials:
            return request.failure(_OUT_OF_MEMORY, "out of memory with micro-batch 1")
    return failure_of(request, lines_by_rank)


def _trials(case: Case, lines: tuple[WorkerLine, ...]) -> Iterator[tuple[int, SampleLine]]:
    """Yield the valid trials of a case by micro-batch.

    A trial is valid if all its durations are positive and finite, or if it ran out of memory.
    """
    for line in lines:
        if not isinstance(line, SampleLine):
            continue
        size = line.case.get("micro_batch")
        if not isinstance(size, int) or size < 1 or line.case != {**case, "micro_batch": size}:
            continue
        sound = line.durations_s and all(0 < duration_s < float("inf") for duration_s in line.durations_s)
        if sound or (not line.durations_s and line.figures.get(_OUT_OF_MEMORY)):
            yield size, line


def _measurements(
    request: BenchRequest,
    start: StartLine,
    case: Case,
    fits: dict[int, SampleLine],
    *,
    smallest_that_fails: int,
) -> tuple[Measurement, ...]:
    model: Case = {} if "step" in case else {"model": request.model["id"]}
    common = {**model, **case, "world_size": request.ranks}
    measurements: list[Measurement] = []
    for size, line in sorted(fits.items()):
        answer = CaseAnswer(request, start, request.subject, line)
        measurements += step_figures(
            answer, {**common, "micro_batch": size}, _work(request, case, size, line)
        )
    peaks = {
        int(row.parameters["micro_batch"]): row.median
        for row in measurements
        if row.metric == "peak_memory_bytes"
    }
    summary = [
        ("largest_micro_batch", "1", float(max(fits))),
        ("fastest_micro_batch", "1", float(_fastest(measurements))),
    ]
    line_fit = fit_memory(peaks)
    if line_fit is not None:
        summary += [
            ("memory_fixed_bytes", "byte", line_fit.fixed_bytes),
            ("memory_per_sample_bytes", "byte", line_fit.per_sample_bytes),
            ("memory_fit_residual", "1", line_fit.residual),
        ]
    # `smallest_that_fails` is 0 if no micro-batch failed, because the time limit ended the sweep.
    return (
        *measurements,
        *(
            with_conditions(
                answer.measurement(metric, unit, (value,), common),
                {"smallest_that_fails": smallest_that_fails},
            )
            for metric, unit, value in summary
        ),
    )


def _work(request: BenchRequest, case: Case, micro_batch: int, line: SampleLine) -> StepWork:
    if "step" in case:
        return StepWork(items=line.figures)
    tokens = micro_batch * float(case["sequence_length"])
    return StepWork(items={"tokens": tokens}, rank_flops=request.flops_per_token * tokens)


def _fastest(measurements: Sequence[Measurement]) -> int:
    """Return the smallest micro-batch whose rate is as good as the best."""
    rates = {
        int(row.parameters["micro_batch"]): row.median
        for metric in reversed(_RATES)
        for row in measurements
        if row.metric == metric
    }
    return min(size for size, rate in rates.items() if rate >= _AS_FAST * max(rates.values()))
