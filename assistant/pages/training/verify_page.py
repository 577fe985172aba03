"""Show predictions beside measurements."""

from __future__ import annotations

from collections.abc import Callable

from assistant.pages.blocks import Column, Page, Section, Table, section
from probes.base.units import duration, gib, percent
from recipes.launch.verification import Comparison, Verification

_HEADINGS = ("", "predicted", "measured", "error", "within its interval")


def verify_page(result: Verification) -> Page:
    """Return what ran, both comparisons, the course of the loss, and the path of the log."""
    ran = (
        f"{result.name}: {result.steps} steps on world size {result.world_size}, "
        f"{result.backend}, {result.device_name}"
    )
    rows = (
        ("step time", *_cells(result.step_time_s, duration)),
        ("peak memory per rank", *_cells(result.peak_memory_bytes, gib)),
    )
    loss = f"loss {result.loss_first:.3f} -> {result.loss_last:.3f}"
    log = [f"log {result.log}"] if result.log else []
    return (
        section("", [ran]),
        Section("", (Table(tuple(map(Column, _HEADINGS)), rows, tone="strong"),)),
        section("", [loss, *(f"! {note}" for note in result.notes), *log]),
    )


def _cells(row: Comparison, written: Callable[[float], str]) -> tuple[str, str, str, str]:
    predicted = written(row.predicted) if row.predicted is not None else "not predicted"
    error = (
        f"{'+' if row.relative_error > 0 else ''}{percent(row.relative_error)}"
        if row.relative_error is not None
        else ""
    )
    within = {None: "", True: "yes", False: "no"}[row.within_range]
    return predicted, written(row.measured), error, within
