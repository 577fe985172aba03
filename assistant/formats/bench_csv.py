"""Write measurements as CSV (RFC 4180), one row per measurement; the column `unit` names the base unit."""

import csv
import io

from probes.base.record import printable, visible
from probes.bench.bench_report import BenchReport, MeasurementReport
from probes.compare.measurement_judgement import ComparedTo, Comparison

FIGURES = (
    "bench_id",
    "subject",
    "metric",
    "unit",
    "median",
    "p5",
    "p95",
    "interval_low",
    "interval_high",
)
"""Fields of `measurements` in the JSON, which have the same names."""
COMPARED: tuple[ComparedTo, ...] = ("reference", "peers", "previous", "pinned")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters with which a spreadsheet would execute a cell as a formula (OWASP, CSV Injection)."""


def csv_text(report: BenchReport) -> str:
    """Return a header, then a row for each measurement.

    After the results come the number of samples (`samples`) and two columns for each kind of comparison: the
    share of the reference (1.0 is equally good, less is worse) and the status. Both columns are empty if
    there is no comparison. The last columns are `parameter.NAME`, one for each parameter of any measurement.
    """
    names = list(dict.fromkeys(name for row in report.measurements for name in row.parameters))
    compared = {(_key(entry), entry.to): entry for entry in report.comparisons}
    shares = [f"{kind}_{what}" for kind in COMPARED for what in ("share", "status")]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*FIGURES, "samples", *shares, *(safe_cell(f"parameter.{name}") for name in names)])
    for row in report.measurements:
        cells: list[object] = [getattr(row, name) for name in FIGURES]
        cells.append(len(row.samples))
        for kind in COMPARED:
            entry = compared.get((_key(row), kind))
            cells += ["", ""] if entry is None else [entry.share, entry.status.value]
        cells += [row.parameters.get(name, "") for name in names]
        writer.writerow([safe_cell(cell) for cell in cells])
    return text.getvalue()


def _key(entry: MeasurementReport | Comparison) -> tuple[object, ...]:
    return entry.bench_id, entry.subject, entry.metric, tuple(sorted(entry.parameters.items()))


def safe_cell(cell: object) -> object:
    """Return a cell; text that a spreadsheet would execute gets an apostrophe in front."""
    if not isinstance(cell, str):
        return cell
    text = visible(printable(cell))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or text.startswith(_FORMULA) else text
