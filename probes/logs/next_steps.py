"""Data to collect next if the logs do not reveal the cause, by what they contain and lack."""

from __future__ import annotations

from probes.logs.cause_rows import load_causes
from probes.logs.seen import Seen
from probes.logs.wording import filled

_MOST = 6


def to_collect(seen: Seen) -> tuple[str, ...]:
    """In the order of the table, which is that of what helps most."""
    told: list[str] = []
    for row in load_causes().collect:
        events = seen.in_order(seen.of(*row.when))
        if (row.when and not events) or (row.unless and seen.has(*row.unless)):
            continue
        told.append(filled(row.text, events))
    return tuple(told[:_MOST])
