"""What was measured: samples with the conditions under which they were taken. Statistics are derived."""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from probes.base.statistics import quantile

SCHEMA_VERSION = 1

Parameter = str | int | float | bool
BUSY_SHARE = 0.1
"""Of all CPUs. What others take beyond it is as much as what a warning (less than 90 % of the reference) is
about.
"""


class Measurement(Record, kw_only=True):
    """The samples of one benchmark on one subject."""

    bench_id: str
    """`gemm`, `memory-copy`, `collectives`, `train-step` ..."""
    subject: str
    """What was measured: `GPU0`, `CPU`, `2 ranks`."""
    metric: str
    """What the number is: `gemm_flops_per_s`, `bus_bandwidth_bytes_per_s`, `step_time_s`, `peak_memory_bytes`
    ...
    """
    unit: str
    """`flop/s`, `byte/s`, `s`, `byte`."""
    samples: tuple[float, ...]
    parameters: dict[str, Parameter] = {}
    """What identifies the case: dtype, shape, bytes, world_size, micro_batch ..."""
    conditions: dict[str, Parameter] = {}
    """What surrounds it: device name, torch and library versions, threads, load average, clocks,
    temperature.
    """

    series: dict[str, tuple[float, ...]] = {}
    """What was seen over time beside the samples, one value per sample: `sm_clock_hz`, `temperature_c` ..."""

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    def quantile(self, fraction: float) -> float:
        """Linear interpolation between order statistics; `fraction` from 0 to 1."""
        return quantile(self.samples, fraction)

    def matches(self, **parameters: Parameter) -> bool:
        """True when every given parameter has the given value."""
        return all(self.parameters.get(name) == value for name, value in parameters.items())


class BenchFailure(Record, kw_only=True):
    """A benchmark that gave no result, kept as data."""

    bench_id: str
    subject: str
    kind: str
    """`no_interpreter`, `busy`, `timeout`, `stopped`, `crashed`, `out_of_memory`, `wrong_result`,
    `incomplete`, `unsupported`.
    """
    message: str
    log_tail: str = ""
    command: str = ""
    """The command line that reproduces it."""


class MeasurementSet(Record, kw_only=True):
    """The result of one `rigtune bench`."""

    schema_version: int = SCHEMA_VERSION
    suite: str = "quick"
    started: str = ""
    """UTC time, ISO 8601."""
    interpreter: str = ""
    machine: str = ""
    """What tells this machine from others: baselines are kept by it."""
    measurements: tuple[Measurement, ...] = ()
    failures: tuple[BenchFailure, ...] = ()


class Baseline(Record, kw_only=True):
    """An earlier run of the same machine."""

    kind: Literal["previous", "pinned"]
    measured: MeasurementSet
