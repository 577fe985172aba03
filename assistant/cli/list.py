"""`rigtune list`: what rigtune knows."""

from __future__ import annotations

import click

from assistant.cli.options import format_option
from assistant.cli.output import emit_json, emit_text
from assistant.usecases.listing import KINDS, list_entries


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@format_option("text", "json")
def command(kind: str, output_format: str) -> None:
    """List checks, benchmarks, launchers, models, machines or gpus."""
    entries = list_entries(kind)
    if output_format == "json":
        emit_json({"schema_version": 1, kind: entries})
        return
    width = max((len(entry["id"]) for entry in entries), default=0)
    emit_text("\n".join(f"{entry['id']:<{width}}  {entry['title']}" for entry in entries))
