"""Base class of all records of log events, and access to their fields by name, which data rows need."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    from probes.base.record import dataclass_transform

Value = str | int | float
R = TypeVar("R", bound="LogRecord")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """The content of one line. Subclasses pass `kw_only=True` and their kind as `tag`.

    Data rows refer to the kind, a dotted name of the subject and the fact: `nccl.channel`. A field that the
    line does not name is None. Equal texts result in values of the same type, so that two lines with the same
    content result in equal records.
    """


class Complaint(LogRecord, kw_only=True):
    """The base of records whose line explains a failure in its own words."""

    reason: str


class Reasoned(LogRecord, kw_only=True):
    """The base of records of deductions that have a reason."""

    why: str
    """The reason, as a phrase."""


def kind_of(record: LogRecord | type[LogRecord]) -> str:
    """Return the kind of a record; empty for a base class."""
    tag = record.__struct_config__.tag
    return tag if isinstance(tag, str) else ""


def fields_of(record: LogRecord) -> dict[str, Value]:
    """Return the fields that the line names, by name."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def field_of(record: LogRecord, name: str) -> Value | None:
    """Return one field by its name; None if the record lacks this field or the line does not name it."""
    value: Value | None = getattr(record, name, None)
    return value


def with_fields(record: R, changes: Mapping[str, Value]) -> R:
    """Return a copy of the record with the changed fields."""
    return msgspec.structs.replace(record, **changes)
