"""`rigtune list`: the rows of rigtune's tables."""

from __future__ import annotations

from typing import Any

import click

from assistant.cli.options import format_option
from assistant.cli.output import emit_json, emit_text
from assistant.usecases.listing import KINDS, list_entries


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@format_option("text", "json")
def list_command(kind: str, output_format: str) -> None:
    """List checks, benchmarks, launchers, models, machines, gpus, software stacks, or kinds of output that
    can be pasted.
    """
    entries = list_entries(kind)
    if output_format == "json":
        emit_json({"schema_version": 1, kind: entries})
        return
    rows = [_cells(kind, entry) for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    emit_text(
        "\n".join(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
    )


def _cells(kind: str, entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one line.

    A check also has its group, tier and weight, and its needs after the title; a benchmark has its suites.
    """
    if kind == "benchmarks":
        return entry["id"], ", ".join(entry["suites"]) or "on request", _benchmark_words(entry)
    if kind != "checks":
        return (entry["id"], entry["title"])
    needs = f"  (needs {', '.join(entry['needs'])})" if entry["needs"] else ""
    weight = "required" if entry["required"] else ""
    return (entry["id"], entry["group"], entry["tier"], weight, entry["title"] + needs)


def _benchmark_words(entry: dict[str, Any]) -> str:
    """Return the title, the rough duration in each suite, what the benchmark occupies and what it needs."""
    costs = (
        f"{entry['cost_s']:g} to {entry['full_cost_s']:g} s"
        if len(entry["suites"]) != 1
        else f"{entry['full_cost_s']:g} s"
    )
    needs = f"; needs {entry['applies']}" if entry["applies"] else ""
    return f"{entry['title']} (about {costs}, occupies {entry['occupies']}{needs})"
