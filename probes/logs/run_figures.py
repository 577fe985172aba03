"""Step time, losses and memory of a run, from the steps in its log."""

import itertools
import statistics

import msgspec

from probes.base.record import Record
from probes.base.units import plural
from probes.logs.training_steps import Format, StepLog, StepSample


class StepFigures(Record, kw_only=True):
    """The figures of a run; None for figures that its log does not report."""

    format: str
    """Id of the log's format."""
    steps: int
    """Number of the last step, or number of reports if the log does not number its steps."""
    step_time_s: float | None = None
    """Median step time, without the first steps of the run if the log allows it."""
    steps_s: tuple[float, ...] = ()
    """The step times whose median is `step_time_s`."""
    loss_first: float | None = None
    loss_last: float | None = None
    allocated_bytes: float | None = None
    reserved_bytes: float | None = None
    notes: tuple[str, ...] = ()


def figures_of(log: StepLog, *, tokens_per_gpu: float, left_out: int = 3) -> StepFigures | None:
    """Return the figures of a log; None if no line is of a known format.

    `tokens_per_gpu` is the number of tokens that one GPU processes in a step; it converts a rate to a time.
    The step time does not count the first `left_out` steps, which include compilation, the warm-up of the
    allocator and the start of NCCL, unless the log has no other steps. It is computed from the reported step
    times, else from token rates, else from differences of times since the start, else from the mean speed of
    the run, which includes all steps.
    """
    if log.format is None:
        return None
    numbered = [
        msgspec.structs.replace(sample, step=sample.step if sample.step is not None else place)
        for place, sample in enumerate(log.samples, 1)
    ]
    warm = [sample for sample in numbered if (sample.step or 0) > left_out] or numbered
    times = [sample.seconds for sample in warm if sample.seconds is not None and sample.seconds > 0]
    notes: list[str] = []
    if not times:
        rates = [sample.tokens_per_s for sample in warm if sample.tokens_per_s]
        times = [tokens_per_gpu / rate for rate in rates if rate > 0 and tokens_per_gpu > 0]
    if not times:
        times = _differences(log.format, warm)
        if times and log.format.resolution_s:
            notes.append(
                f"{log.format.title} reports times in whole seconds, so the step time is a mean over "
                f"{plural(len(warm), 'report')}."
            )
    whole = [sample.run_steps_per_s for sample in log.samples if sample.run_steps_per_s]
    if not times and whole and whole[-1] > 0:
        times = [1 / whole[-1]]
        notes.append("The step time is the mean of the whole run: it includes the start and the checkpoints.")
    losses = [sample.loss for sample in log.samples if sample.loss is not None]
    return StepFigures(
        format=log.format.id,
        steps=log.steps,
        step_time_s=statistics.median(times) if times else None,
        steps_s=tuple(times),
        loss_first=losses[0] if losses else None,
        loss_last=losses[-1] if losses else None,
        allocated_bytes=max(
            (each.allocated_bytes for each in log.samples if each.allocated_bytes), default=None
        ),
        reserved_bytes=max(
            (each.reserved_bytes for each in log.samples if each.reserved_bytes), default=None
        ),
        notes=tuple(notes),
    )


def _differences(kind: Format, samples: list[StepSample]) -> list[float]:
    """Return the step times between successive reports of cumulative times.

    Times of a coarse resolution give one mean over all reports, or none if the reports span too short a time.
    """
    points = [(sample.step or 0, total) for sample in samples if (total := _elapsed(sample)) is not None]
    if kind.resolution_s:
        points = [points[0], points[-1]] if len(points) > 1 else []
        if points and points[1][1] - points[0][1] < 10 * kind.resolution_s:
            return []  # the error of the resolution is more than a tenth
    pairs = itertools.pairwise(points)
    return [
        (end - start) / (last - first)
        for (first, start), (last, end) in pairs
        if last > first and end > start
    ]


def _elapsed(sample: StepSample) -> float | None:
    if sample.elapsed_s is not None or sample.mean_s is None:
        return sample.elapsed_s
    return sample.mean_s * (sample.step or 0)
