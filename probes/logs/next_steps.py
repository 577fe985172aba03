"""Data to collect next if the logs do not reveal the cause, by what they contain and lack."""

from __future__ import annotations

from probes.logs.cause_rows import load_causes
from probes.logs.seen import Seen
from probes.logs.wording import filled

_MOST = 6


def to_collect(seen: Seen) -> tuple[str, ...]:
    """Return the data to collect, the most useful first, in the order of the table."""
    texts: list[str] = []
    for row in load_causes().collect:
        events = seen.in_order(seen.of(*row.when))
        if (row.when and not events) or (row.unless and seen.has(*row.unless)):
            continue
        texts.append(filled(row.text, events))
    return tuple(texts[:_MOST])
