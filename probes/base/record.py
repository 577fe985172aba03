"""The base of every record that rigtune stores, and the value for what could not be known."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda decorated: decorated


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True):
    """An immutable value that travels as JSON. Unknown fields are ignored, so older readers accept newer
    files.

    Subclasses add `kw_only=True` (msgspec does not inherit it).
    """


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class StrictRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record that people edit by hand: a field that does not exist is an error, not a silent no-op."""


class Reason(str, enum.Enum):
    """Why a value is unknown."""

    NOT_SUPPORTED = "not_supported"
    """The device or driver says that it has no such value."""
    PERMISSION = "permission"
    TOOL_MISSING = "tool_missing"
    """The command, library or file that would tell does not exist here."""
    TIMEOUT = "timeout"
    UNPARSABLE = "unparsable"
    NOT_RECORDED = "not_recorded"
    """The recording, paste or catalogue entry does not hold it."""
    ERROR = "error"
    """The tool answered with an error; `detail` holds its words."""


class Unknown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that rigtune looked for and could not learn. Never a pass, never a guess.

    As JSON: `{"unknown": "timeout", "detail": "nvidia-smi took longer than 10 s"}`.
    """

    reason: Reason = msgspec.field(name="unknown")
    detail: str = ""

    @property
    def words(self) -> str:
        """`timeout: df took longer than 10 s`."""
        words = self.reason.value.replace("_", " ")
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"unknown ({self.words})"


NOT_RECORDED = Unknown(Reason.NOT_RECORDED)
DEEP_ONLY = Unknown(Reason.NOT_RECORDED, "read with --tier deep only")
"""What only checks of the tier `deep` use, where those are not made."""


def known(value: T | Unknown) -> TypeGuard[T]:
    """True when `value` is a value rather than an `Unknown`."""
    return not isinstance(value, Unknown)


def value_or(value: T | Unknown, default: T) -> T:
    """`value`, or `default` where it is unknown. For display and ordering only, never for a verdict."""
    return default if isinstance(value, Unknown) else value


def first_unknown(*values: object) -> Unknown | None:
    """Return the first of the values that is unknown; None where all are known."""
    return next((value for value in values if isinstance(value, Unknown)), None)


class EvidenceRef(Record, kw_only=True):
    """Where something was read: enough to show the raw text again."""

    source: str
    """`command`, `paste`, `file`, `nvml`, `environment`, `catalogue`, `measurement`, `rule` or `policy`."""
    key: str
    """The command line, path, NVML call, catalogue row or benchmark id."""
    detail: str = ""


def to_json(record: Any, *, indent: int = 2) -> bytes:
    """`record` as UTF-8 JSON with a newline at the end. Bytes of file names that are no UTF-8 become
    U+FFFD.
    """
    try:
        data = msgspec.json.encode(record)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_printable(msgspec.to_builtins(record, str_keys=True)))
    return msgspec.json.format(data, indent=indent) + b"\n"


def printable(text: str) -> str:
    """`text` with U+FFFD for the bytes of a file name or variable that are no UTF-8, which no JSON can
    carry.
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # half of a pair, of a JSON escape
        return "".join(
            "\N{REPLACEMENT CHARACTER}" if "\ud800" <= character <= "\udfff" else character
            for character in text
        )


def _printable(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case dict():
            return {_printable(name): _printable(item) for name, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
    return value
