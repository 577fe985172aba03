"""Measurements of a short run of a recipe, compared with the plan's predictions."""

from probes.base.record import Record
from recipes.launch.recipe import Prediction

SCHEMA_VERSION = 1


class Comparison(Record, kw_only=True):
    """One figure, predicted and measured."""

    measured: float
    predicted: float | None = None
    relative_error: float | None = None
    """Predicted divided by measured, minus one: 0.1 means that the prediction is 10 % too high.

    None if nothing was predicted.
    """
    within_range: bool | None = None
    """Whether the measurement is between the predicted bounds; None without bounds."""


class Verification(Record, kw_only=True):
    """The result of `rigtune verify`."""

    schema_version: int = SCHEMA_VERSION
    name: str
    steps: int
    world_size: int
    backend: str
    device_name: str
    torch_version: str
    step_time_s: Comparison
    """Median over the steps after warm-up."""
    peak_memory_bytes: Comparison
    """Allocated: peak of the rank that uses most."""
    reserved_memory_bytes: Comparison | None = None
    """Memory that this rank's allocator reserved; None if the run did not report it."""
    worst_memory_bytes: Comparison | None = None
    """Worst case, which the reserved memory must not exceed."""
    loss_first: float
    loss_last: float
    notes: tuple[str, ...] = ()
    log: str = ""
    """Path of the run's output."""


def compare_step_time(predicted: Prediction, measured_s: float) -> Comparison:
    low, high = predicted.step_time_low_s, predicted.step_time_high_s
    within = low <= measured_s <= high if low is not None and high is not None else None
    return _compare(predicted.step_time_s, measured_s, within)


def compare_peak_memory(predicted: Prediction, measured_bytes: float) -> Comparison:
    return _compare(predicted.peak_memory_bytes, measured_bytes, None)


def compare_reserved_memory(predicted: Prediction, measured_bytes: float) -> Comparison:
    return _compare(predicted.reserved_memory_bytes, measured_bytes, None)


def compare_worst_memory(predicted: Prediction, measured_bytes: float) -> Comparison:
    """Compare the measured memory with the worst case; as a bound, it has no relative error."""
    worst = predicted.worst_memory_bytes
    within = None if worst is None else measured_bytes <= worst
    return Comparison(measured=measured_bytes, predicted=worst, within_range=within)


def _compare(predicted: float | None, measured: float, within_range: bool | None) -> Comparison:
    error = predicted / measured - 1 if predicted is not None and measured > 0 else None
    return Comparison(measured=measured, predicted=predicted, relative_error=error, within_range=within_range)
