"""Events of logs by kind and fields, for tests of what is deduced from them."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.logs.event import Event
from probes.logs.events.log_record import LogRecord, Value
from probes.logs.events.record_kinds import RECORDS

_EMPTY: dict[type, Value] = {str: "", int: 0, float: 0.0, bool: False}


def record(kind: str, fields: dict[str, Value]) -> LogRecord:
    """Return the record of a kind with those of the fields that fit its types, and empty values for all other
    fields that the kind requires.

    Raises KeyError for a kind without a record.
    """
    known = RECORDS[kind]
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(known):
        types = getattr(field.type, "__args__", (field.type,))
        if field.required:
            values[field.name] = _EMPTY[types[0]]
        if field.name in fields:
            try:
                values[field.name] = msgspec.convert(fields[field.name], field.type)
            except msgspec.ValidationError:
                continue
    return known(**values)


def event(kind: str, fields: dict[str, Value] | None = None, **envelope: Any) -> Event:
    """Return an event of a kind, with the envelope's fields beside those of the record."""
    return Event(what=record(kind, fields or {}), **{"source": "a.log", "number": 1, "text": "", **envelope})
