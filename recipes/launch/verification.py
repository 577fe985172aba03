"""Measurements of a short run of a recipe, compared with the plan's predictions."""

from typing import Literal

from probes.base.record import Record
from probes.judging.findings import Finding, Status
from recipes.launch.recipe import Prediction

SCHEMA_VERSION = 1


class Comparison(Record, kw_only=True):
    """One figure, predicted and measured."""

    measured: float
    predicted: float | None = None
    relative_error: float | None = None
    """Predicted divided by measured, minus one: 0.1 means that the prediction is 10 % too high.

    None if nothing was predicted or measured, and for the worst case, which is only a bound.
    """
    within_range: bool | None = None
    """True if the measurement is between the predicted bounds; None without bounds."""


class Verification(Record, kw_only=True):
    """The result of `rigtune verify`."""

    schema_version: int = SCHEMA_VERSION
    name: str
    program: Literal["reference", "own", "none"] = "reference"
    """The program that was measured: the reference workload, the recipe's own program, or none, because the
    launch failed.
    """
    launcher: str = "torchrun"
    findings: tuple[Finding, ...] = ()
    """Assertions about the launch, and differences from the prediction with what to change."""
    steps: int = 0
    world_size: int
    backend: str
    transports: tuple[str, ...] = ()
    """Transports of NCCL in the smoke test: `P2P/CUMEM`, `NET/IB/GDRDMA`; empty for gloo."""
    device_name: str
    torch_version: str
    step_time_s: Comparison | None = None
    """Median over the steps after warm-up; None if no step was measured."""
    steps_s: tuple[float, ...] = ()
    """Step times after warm-up."""
    peak_memory_bytes: Comparison | None = None
    """Allocated: the largest peak that the run reported; None if the program does not report this figure."""
    reserved_memory_bytes: Comparison | None = None
    """Reserved by the allocator: the largest peak that the run reported, perhaps of another rank, or None."""
    worst_memory_bytes: Comparison | None = None
    """Worst case, which the reserved memory must not exceed."""
    loss_first: float | None = None
    loss_last: float | None = None
    notes: tuple[str, ...] = ()
    log: str = ""
    """Path of the file with the run's output."""
    stored: str = ""
    """File with the measured step, which the next plan for this machine reads; empty if there is none."""

    @property
    def has_failed(self) -> bool:
        """Return whether an assertion about the launch failed."""
        return any(finding.status is Status.FAIL for finding in self.findings)


class VerifyPlan(Record, kw_only=True):
    """The commands, files and assertions of a verification (`rigtune verify --dry-run`)."""

    schema_version: int = SCHEMA_VERSION
    name: str
    launcher: str
    program: Literal["reference", "own"]
    steps: int
    folder: str
    smoke_command: tuple[str, ...]
    """Command that starts the smoke test on every rank."""
    command: tuple[str, ...]
    """Command that starts the measured program."""
    files: tuple[str, ...]
    """Files that are written to the folder."""
    asserted: tuple[str, ...]
    """Sentences that state what is asserted about the launch."""
    notes: tuple[str, ...] = ()


def compare_step_time(predicted: Prediction, measured_s: float) -> Comparison:
    low, high = predicted.step_time_low_s, predicted.step_time_high_s
    within = low <= measured_s <= high if low is not None and high is not None else None
    return _compare(predicted.step_time_s, measured_s, within)


def compare_peak_memory(predicted: Prediction, measured_bytes: float) -> Comparison:
    return _compare(predicted.peak_memory_bytes, measured_bytes, None)


def compare_reserved_memory(predicted: Prediction, measured_bytes: float) -> Comparison:
    return _compare(predicted.reserved_memory_bytes, measured_bytes, None)


def compare_worst_memory(predicted: Prediction, measured_bytes: float) -> Comparison:
    """Compare the measured memory with the worst case, which is a bound: there is no relative error."""
    worst = predicted.worst_memory_bytes
    within = None if worst is None else measured_bytes <= worst
    return Comparison(measured=measured_bytes, predicted=worst, within_range=within)


def _compare(predicted: float | None, measured: float, within_range: bool | None) -> Comparison:
    error = predicted / measured - 1 if predicted is not None and measured > 0 else None
    return Comparison(measured=measured, predicted=predicted, relative_error=error, within_range=within_range)
