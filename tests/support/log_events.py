"""Events of logs by kind and fields, for tests of what is deduced from them."""

from __future__ import annotations

from typing import Any

from probes.logs.event import Event
from probes.logs.events.log_record import LogRecord, Value, untyped


def record(kind: str, fields: dict[str, Value]) -> LogRecord:
    """Return the record of a kind."""
    return untyped(kind, fields)


def event(kind: str, fields: dict[str, Value] | None = None, **envelope: Any) -> Event:
    """Return an event of a kind, with the envelope's fields beside those of the record."""
    return Event(what=record(kind, fields or {}), **{"source": "a.log", "number": 1, "text": "", **envelope})
