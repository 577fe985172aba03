"""Measurements for the eye."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from assistant.render.tables import plain_table, text_of
from probes.measurements import Measurement, MeasurementSet
from probes.units import quantity


def case(measurement: Measurement) -> str:
    """The parameters that identify the case, short."""
    return " ".join(f"{name}={value}" for name, value in measurement.parameters.items())


def render_measurements(result: MeasurementSet, *, colour: bool = False) -> str:
    """One line per measurement, failures last with the command that reproduces them."""
    table = plain_table("benchmark", "subject", "metric", "median", "p5 .. p95", "case")
    for row in result.measurements:
        spread = f"{quantity(row.quantile(0.05), row.unit)} .. {quantity(row.quantile(0.95), row.unit)}"
        table.add_row(row.bench_id, row.subject, row.metric, quantity(row.median, row.unit), spread, case(row))
    parts: list[RenderableType] = [table] if result.measurements else []
    for failure in result.failures:
        parts.append(Text(f"FAIL {failure.bench_id} on {failure.subject}: {failure.message}", style="red"))
        if failure.command:
            parts.append(f"     again: {failure.command}")
    return text_of(parts, colour=colour)
