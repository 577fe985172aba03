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
    """The content of one line. Subclasses name their `KIND` and add `kw_only=True`.

    A field that the line does not name is None. Records have values of one type for each field, so that two
    lines of the same content make equal records.
    """

    KIND: ClassVar[str] = ""
    """Dotted name in rows of data, from the subject to the fact: `nccl.channel`, `torch.watchdog-timeout`."""


class Complaint(LogRecord, kw_only=True):
    """The base of records whose line gives the reason of a failure in its own words."""

    reason: str


class Reasoned(LogRecord, kw_only=True):
    """The base of records of deductions that give their reason."""

    why: str
    """The reason, in words."""


def fields_of(record: LogRecord) -> dict[str, Value]:
    """Return the fields that the line names, by name."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def field_of(record: LogRecord, name: str) -> Value | None:
    """Return one field by its name; None where the record has no such field or the line does not name it."""
    value: Value | None = getattr(record, name, None)
    return value


def with_fields(record: R, changes: Mapping[str, Value]) -> R:
    """Return a copy of the record with other values of some fields."""
    return msgspec.structs.replace(record, **changes)
