"""Measurements: samples, and the conditions under which they were taken.

Statistics are computed from the samples.
"""

from collections.abc import Iterable
from typing import Literal

from probes.base.record import Record
from probes.base.statistics import quantile

SCHEMA_VERSION = 1

Parameter = str | int | float | bool
BUSY_SHARE = 0.1
"""Share of all CPUs that other processes may use.

A larger share slows a benchmark as much as a problem that causes a warning (below 90 % of the reference).
"""


class Measurement(Record, kw_only=True):
    """The samples of a benchmark on one subject."""

    bench_id: str
    """Id of the benchmark: `gemm`, `memory-copy`, `collectives`, `train-step` ..."""
    subject: str
    """The measured device or group: `GPU0`, `CPU`, `2 ranks`."""
    metric: str
    """Quantity and unit: `gemm_flops_per_s`, `bus_bandwidth_bytes_per_s`, `step_time_s`, `peak_memory_bytes`
    ...
    """
    unit: str
    """Unit: `flop/s`, `byte/s`, `s`, `byte` and others (see `probes.base.units.quantity`)."""
    samples: tuple[float, ...]
    parameters: dict[str, Parameter] = {}
    """Parameters that identify the case: dtype, shape, bytes, world_size, micro_batch ..."""
    conditions: dict[str, Parameter] = {}
    """Conditions of the run: device name, library versions, threads, load average, clocks, temperature."""

    series: dict[str, tuple[float, ...]] = {}
    """Values over time, one per sample: `sm_clock_hz`, `temperature_c` ..."""

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    def quantile(self, fraction: float) -> float:
        """Return a quantile by linear interpolation between order statistics; `fraction` is from 0 to 1."""
        return quantile(self.samples, fraction)

    @property
    def was_disturbed(self) -> bool:
        """Return whether others used the machine during the measurement."""
        return self.conditions.get("host_busy") is True

    @property
    def spread(self) -> float:
        """Half of the range from the 5th to the 95th percentile, as a share of the median.

        0 if the median is 0.
        """
        median = self.median
        return (self.quantile(0.95) - self.quantile(0.05)) / 2 / abs(median) if median else 0.0

    def matches(self, **parameters: Parameter) -> bool:
        """Return whether every given parameter has the given value."""
        return all(self.parameters.get(name) == value for name, value in parameters.items())


class BenchFailure(Record, kw_only=True):
    """A benchmark without a result, recorded as data."""

    bench_id: str
    subject: str
    kind: str
    """Kind of the failure.

    Kinds are `no_interpreter`, `busy`, `timeout`, `stopped`, `crashed`, `out_of_memory`, `wrong_result`,
    `incomplete` and `unsupported`.
    """
    message: str
    log_tail: str = ""
    command: str = ""
    """The command line that reproduces the failure."""


class MeasuredMachine(Record, kw_only=True):
    """The machine of a measurement run, described by the parts that determine its speed."""

    hostname: str = ""
    """Name of the host; empty if unknown."""
    gpus: tuple[str, ...] = ()
    """Name of each GPU that trains; empty if the machine trains on its CPU."""
    cpu: str = ""
    """Model of the CPU; empty if unknown."""
    cores: int | None = None
    """Physical cores."""
    counted: bool = True
    """False if `gpus` has each name once, because the run did not state the number of GPUs."""


class MeasurementSet(Record, kw_only=True):
    """The result of one `rigtune bench`."""

    schema_version: int = SCHEMA_VERSION
    suite: str = "quick"
    started: str = ""
    """UTC time, ISO 8601."""
    interpreter: str = ""
    hindrance: str = ""
    """Reason why the interpreter cannot train here: it has no torch, or torch cannot use the GPUs."""
    machine: str = ""
    """Identity of the machine, which is the key of stored baselines."""
    taken_on: MeasuredMachine | None = None
    """The machine that was measured; None in files of older versions."""
    measurements: tuple[Measurement, ...] = ()
    failures: tuple[BenchFailure, ...] = ()


def others_share(measured: Iterable[Measurement]) -> float:
    """Return the largest share of the CPUs that other programs took during a measurement."""
    shares = (measurement.conditions.get("others_cpu_share") for measurement in measured)
    return max((float(share) for share in shares if isinstance(share, (int, float))), default=0.0)


class Baseline(Record, kw_only=True):
    """An earlier run of the same machine."""

    kind: Literal["previous", "pinned"]
    measured: MeasurementSet
