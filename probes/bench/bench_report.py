"""The JSON result of `rigtune bench`: measurements with statistics, failures, findings and comparisons.

The JSON of a `BenchReport` is also a valid `MeasurementSet`, whose reader ignores the derived statistics.
"""

import msgspec

from probes.base.statistics import confidence_interval, quantile
from probes.bench.latency_bandwidth import Fit, fits
from probes.compare.measurement_judgement import Comparison, Judgement
from probes.facts.measurements import Measurement, MeasurementSet
from probes.judging.findings import Finding


class MeasurementReport(Measurement, kw_only=True):
    """A measurement and the statistics of its samples, in its unit."""

    median: float
    p5: float
    p95: float
    """5th and 95th percentile, by linear interpolation between the sorted samples."""
    interval_low: float
    interval_high: float
    """Ends of the 95 % confidence interval of the median; below 6 samples the smallest and largest sample."""


class BenchReport(MeasurementSet, kw_only=True):
    """The result of one run of the benchmarks."""

    measurements: tuple[MeasurementReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    collective_fits: tuple[Fit, ...] = ()
    """Time of each collective as a function of its size."""


def report_of(measured: MeasurementSet, judgement: Judgement | None = None) -> BenchReport:
    """Return the report of a run with its findings and comparisons, if it was judged."""
    judged = judgement or Judgement()
    return BenchReport(
        suite=measured.suite,
        started=measured.started,
        interpreter=measured.interpreter,
        hindrance=measured.hindrance,
        machine=measured.machine,
        taken_on=measured.taken_on,
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
