"""Predicted beside measured, for the eye."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType

from assistant.render.tables import plain_table, text_of
from probes.base.units import duration, gib, percent
from recipes.launch.verification import Comparison, Verification


def render_verification(result: Verification, *, colour: bool = False) -> str:
    """What ran, both comparisons, how the loss went, and where the log is."""
    ran = f"{result.name}: {result.steps} steps on world size {result.world_size}, {result.backend}, {result.device_name}"
    table = plain_table("", "predicted", "measured", "error", "within its interval")
    table.add_row("step time", *_cells(result.step_time_s, duration))
    table.add_row("peak memory per rank", *_cells(result.peak_memory_bytes, gib))
    parts: list[RenderableType] = [
        ran,
        "",
        table,
        "",
        f"loss {result.loss_first:.3f} -> {result.loss_last:.3f}",
    ]
    parts += [f"! {note}" for note in result.notes]
    if result.log:
        parts.append(f"log {result.log}")
    return text_of(parts, colour=colour)


def _cells(row: Comparison, written: Callable[[float], str]) -> tuple[str, str, str, str]:
    predicted = written(row.predicted) if row.predicted is not None else "not predicted"
    error = (
        f"{'+' if row.relative_error > 0 else ''}{percent(row.relative_error)}"
        if row.relative_error is not None
        else ""
    )
    within = {None: "", True: "yes", False: "no"}[row.within_range]
    return predicted, written(row.measured), error, within
