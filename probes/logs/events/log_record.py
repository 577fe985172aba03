"""The base of every record of a log event, and how rows of data look at its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    from probes.base.record import dataclass_transform

Value = str | int | float
R = TypeVar("R", bound="LogRecord")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """What one line reports. Subclasses name their `KIND` and add `kw_only=True`.

    A field that the line does not name is None. Records hold values of one type for each field, so that two
    lines of the same content make equal records.
    """

    KIND: ClassVar[str] = ""
    """Dotted name in rows of data, from the subject to the fact: `nccl.channel`, `torch.watchdog-timeout`."""


class Untyped(LogRecord, frozen=True, kw_only=True):
    """An event of a family that has no records yet: its kind and its fields by name."""

    KIND: str  # type: ignore[misc]
    named: dict[str, Value] = {}

    def __hash__(self) -> int:
        return hash((self.KIND, *self.named.items()))


def untyped(kind: str, fields: Mapping[str, Value]) -> Untyped:
    """Return the record of a kind that has no class of its own."""
    return Untyped(KIND=kind, named={**fields})


def fields_of(record: LogRecord) -> dict[str, Value]:
    """Return the fields that the line names, by name."""
    if type(record) is Untyped:
        return record.named
    fields: dict[str, Any] = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def field_of(record: LogRecord, name: str) -> Value | None:
    """Return one field by its name; None where the record has no such field or the line does not name it."""
    value: Value | None
    value = record.named.get(name) if type(record) is Untyped else getattr(record, name, None)
    return value


def with_fields(record: R, changes: Mapping[str, Value]) -> R:
    """Return a copy of the record with other values of some fields."""
    if isinstance(record, Untyped):
        return msgspec.structs.replace(record, named={**record.named, **changes})
    return msgspec.structs.replace(record, **changes)
