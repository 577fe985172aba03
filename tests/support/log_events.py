"""Events of logs by kind and fields, for tests of deductions."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

import msgspec

from probes.logs import events
from probes.logs.event import Event
from probes.logs.events.log_record import LogRecord, Value, kind_of

RECORDS: dict[str, type[LogRecord]] = {
    kind_of(record): record
    for module in pkgutil.iter_modules(events.__path__, f"{events.__name__}.")
    for record in vars(importlib.import_module(module.name)).values()
    if isinstance(record, type) and issubclass(record, LogRecord) and kind_of(record)
}
"""All records of log events by the names of their kinds."""
_EMPTY: dict[type, Value] = {str: "", int: 0, float: 0.0, bool: False}


def record(kind: str, fields: dict[str, Value]) -> LogRecord:
    """Return the record of a kind with the fields that fit its types; other required fields are empty.

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


def kinds_named(name: str) -> tuple[str, ...]:
    """Return the kinds that a row names: `.*` at the end means all kinds with that prefix, `|` is "or"."""
    kinds: list[str] = []
    for each in name.split("|"):
        kinds += [kind for kind in RECORDS if kind.startswith(each[:-1])] if each.endswith(".*") else [each]
    return tuple(kinds)


def unknown_names(name: str, fields: Mapping[str, object]) -> tuple[str, ...]:
    """Return the kinds and fields of a row that do not exist."""
    kinds = kinds_named(name)
    unknown = [kind for kind in kinds if kind not in RECORDS]
    known = {
        field.name for kind in kinds if kind in RECORDS for field in msgspec.structs.fields(RECORDS[kind])
    }
    missing = (
        [field for field in fields if field not in known] if all(kind in RECORDS for kind in kinds) else []
    )
    return (*unknown, *(f"{name}: {field}" for field in missing))
