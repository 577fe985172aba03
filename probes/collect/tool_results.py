"""Collect measurements of other tools from their given outputs."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED
from probes.collect.collecting import CollectOptions
from probes.sources.base import Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `tool_results`; Unknown if none was given, because rigtune does not start such tools."""
    if source.is_live:
        return {"tool_results": NOT_RECORDED}
    from probes.reading.readers.reader_rows import MEASUREMENTS  # noqa: PLC0415 - likewise
    from probes.reading.readers.text_reader import read_all, records_of, unread_of  # noqa: PLC0415

    texts = read_all(source, MEASUREMENTS)
    return {"tool_results": records_of(texts) if texts else NOT_RECORDED, "unread": unread_of(texts)}
