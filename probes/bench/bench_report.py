"""What `rigtune bench` tells to programs: every measurement with its figures, what failed, and what is to be
said about both.

The JSON of a `BenchReport` also reads as a `MeasurementSet`: the figures are derived and ignored there.
"""

from __future__ import annotations

import msgspec

from probes.base.record import Record
from probes.base.statistics import confidence_interval, quantile
from probes.bench.latency_bandwidth import Fit, fits
from probes.compare.measurement_judgement import Comparison, Judgement
from probes.facts.measurements import SCHEMA_VERSION, BenchFailure, Measurement, MeasurementSet
from probes.judging.findings import Finding


class MeasurementReport(Measurement, kw_only=True):
    """A measurement and the figures of its samples, in its unit."""

    median: float
    p5: float
    p95: float
    """5th and 95th percentile, by linear interpolation between the sorted samples."""
    interval_low: float
    interval_high: float
    """Confidence interval of the median, of 95 % from 6 samples on; smallest and largest of fewer."""


class BenchReport(Record, kw_only=True):
    """One run of the benchmarks."""

    schema_version: int = SCHEMA_VERSION
    suite: str = "quick"
    started: str = ""
    """UTC time, ISO 8601."""
    interpreter: str = ""
    machine: str = ""
    measurements: tuple[MeasurementReport, ...] = ()
    failures: tuple[BenchFailure, ...] = ()
    findings: tuple[Finding, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    collective_fits: tuple[Fit, ...] = ()
    """What each collective costs by its size."""


def report_of(measured: MeasurementSet, judgement: Judgement | None = None) -> BenchReport:
    """The report of a run and, where it was judged, of what it compares to."""
    judged = Judgement() if judgement is None else judgement
    return BenchReport(
        suite=measured.suite,
        started=measured.started,
        interpreter=measured.interpreter,
        machine=measured.machine,
        measurements=tuple(_row(entry) for entry in measured.measurements if entry.samples),
        failures=measured.failures,
        findings=judged.findings,
        comparisons=judged.comparisons,
        collective_fits=fits(measured.measurements),
    )


def _row(entry: Measurement) -> MeasurementReport:
    low, high = confidence_interval(entry.samples)
    return MeasurementReport(
        **msgspec.structs.asdict(entry),
        median=quantile(entry.samples, 0.5),
        p5=quantile(entry.samples, 0.05),
        p95=quantile(entry.samples, 0.95),
        interval_low=low,
        interval_high=high,
    )
