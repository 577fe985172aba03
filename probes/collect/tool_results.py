"""Collect measurements of other tools from their given outputs."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import ToolResult, Unread
from probes.sources.base import Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `tool_results`; Unknown if none was given, because rigtune does not start such tools."""
    if source.is_live:
        return {"tool_results": NOT_RECORDED}
    from probes.reading.readers.tool_texts import MEASUREMENTS  # noqa: PLC0415 - a live machine has none

    found: list[ToolResult] = []
    unread: list[Unread] = []
    is_given = False
    for reader in MEASUREMENTS:
        told = reader.read(source, ToolResult)
        if not isinstance(told, Unknown):
            is_given = True
            found += told[0]
            unread += told[1]
    return {"tool_results": tuple(found) if is_given else NOT_RECORDED, "unread": tuple(unread)}
