"""The base of every record that rigtune stores, and the value for unknown facts."""

import enum
import re
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import msgspec

from probes.base.patterns import pattern

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda decorated: decorated


T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True):
    """An immutable value that is stored and sent as JSON.

    Unknown fields are ignored, so that older readers accept newer files. Subclasses add `kw_only=True`, which
    msgspec does not inherit.
    """


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class StrictRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record that people edit by hand: an unknown field is an error."""


class Reason(str, enum.Enum):
    """The reason why a value is unknown."""

    NOT_SUPPORTED = "not_supported"
    """The device or driver reports that the value does not exist."""
    PERMISSION = "permission"
    TOOL_MISSING = "tool_missing"
    """The command, library or file that has the value does not exist on this machine."""
    TIMEOUT = "timeout"
    UNPARSABLE = "unparsable"
    NOT_RECORDED = "not_recorded"
    """The recording, paste or catalogue row does not contain the value, or this run did not read it."""
    ERROR = "error"
    """The tool reported an error, which `detail` quotes."""
    UNCERTAIN = "uncertain"
    """The value was measured, but its samples scatter too much."""


class Unknown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that rigtune could not read.

    A check never passes because of an unknown value, and rigtune never guesses the value. As JSON:
    `{"unknown": "timeout", "detail": "nvidia-smi took longer than 10 s"}`.
    """

    reason: Reason = msgspec.field(name="unknown")
    detail: str = ""

    @property
    def words(self) -> str:
        """Return the reason and its detail: `timeout: df took longer than 10 s`."""
        words = self.reason.value.replace("_", " ")
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"unknown ({self.words})"


NOT_RECORDED = Unknown(Reason.NOT_RECORDED)
DEEP_ONLY = Unknown(Reason.NOT_RECORDED, "read only with --tier deep")
"""The value of facts that only deep checks use, if deep checks do not run."""


def known(value: T | Unknown) -> TypeGuard[T]:
    """Return True if `value` is a value rather than an `Unknown`."""
    return not isinstance(value, Unknown)


def value_or(value: T | Unknown, default: T) -> T:
    """Return `value`, or `default` if unknown. For display and ordering, never for a verdict."""
    return default if isinstance(value, Unknown) else value


def items_of(values: tuple[T, ...] | Unknown) -> tuple[T, ...]:
    """Return the elements, or an empty tuple if unknown.

    Not for verdicts, because "there are none" and "unknown" give the same result.
    """
    return () if isinstance(values, Unknown) else values


_LONGEST_QUOTE = 60
"""Number of characters of an input that a message quotes; a longer quote would hide the message itself."""


def quoted(text: str) -> str:
    """Return the start of an input for a message: in quotes, with control characters escaped."""
    return repr(text[:_LONGEST_QUOTE])


def map_known(value: T | Unknown, function: Callable[[T], R]) -> R | Unknown:
    """Return `function` of the value; an Unknown is returned unchanged."""
    return value if isinstance(value, Unknown) else function(value)


def map_both(first: T | Unknown, second: R | Unknown, function: Callable[[T, R], S]) -> S | Unknown:
    """Return `function` of both values; if a value is unknown, return the first Unknown."""
    if isinstance(first, Unknown):
        return first
    return second if isinstance(second, Unknown) else function(first, second)


def when_missing(value: T | Unknown, instead: R) -> T | R | Unknown:
    """Return the value, or `instead` if the command, library or file that has the value does not exist."""
    return instead if isinstance(value, Unknown) and value.reason is Reason.TOOL_MISSING else value


def only_known(values: Iterable[T | Unknown]) -> list[T]:
    """Return the known values, in their order."""
    return [value for value in values if not isinstance(value, Unknown)]


def first_unknown(*values: object) -> Unknown | None:
    """Return the first unknown value; None if all values are known."""
    return next((value for value in values if isinstance(value, Unknown)), None)


class EvidenceRef(Record, kw_only=True):
    """Reference to the origin of a value; precise enough to find the raw text again."""

    source: str
    """`command`, `paste`, `file`, `nvml`, `environment`, `catalogue`, `measurement`, `rule` or `policy`."""
    key: str
    """The command line, path, NVML call, catalogue row or benchmark id."""
    detail: str = ""


def file_ref(path: str, detail: str = "") -> EvidenceRef:
    """Return the reference to a file or directory of the machine."""
    return EvidenceRef(source="file", key=path, detail=detail)


def command_ref(argv: tuple[str, ...], detail: str = "") -> EvidenceRef:
    """Return the reference to a command line."""
    return EvidenceRef(source="command", key=shlex.join(argv), detail=detail)


def nvml_ref(call: str) -> EvidenceRef:
    """Return the reference to an NVML call, or to all calls on one device: `nvmlDeviceGet*(0)`."""
    return EvidenceRef(source="nvml", key=call)


def environment_ref(name: str) -> EvidenceRef:
    """Return the reference to an environment variable."""
    return EvidenceRef(source="environment", key=name)


def line_ref(number: int) -> EvidenceRef:
    """Return the reference to a line of the text that a parser reads; the caller adds the text's source."""
    return EvidenceRef(source="", key="", detail=f"line {number}")


REPLACEMENT = "\ufffd"
"""The replacement character, written as a number: to compile its name, Python would load the table of all
character names, and an interrupt at that moment becomes a SyntaxError.
"""
_INVISIBLE = pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters (ECMA-48) except tab and line ends, and marks of bidirectional text (UAX #9)."""


def to_json(record: Any, *, indent: int = 2) -> bytes:
    """Return `record` as UTF-8 JSON with a newline at the end.

    Bytes of file names that are not UTF-8 become U+FFFD. Characters that move a terminal's cursor or
    reverse its text are escaped.
    """
    try:
        data = msgspec.json.encode(record)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_printable(msgspec.to_builtins(record, str_keys=True)))
    data = msgspec.json.format(data, indent=indent) + b"\n"
    if data.isascii() and b"\x7f" not in data:
        return data
    return _INVISIBLE.sub(_escaped, data.decode()).encode()


def from_json(data: bytes | str, kind: type[T]) -> T:
    """Return the value of type `kind` that JSON text contains. Raises msgspec.DecodeError for any fault.

    msgspec itself raises other errors for text that is not UTF-8 and for a deep tree.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def is_invisible(character: str) -> bool:
    """Return whether a character moves a terminal's cursor or reverses its text."""
    return _INVISIBLE.fullmatch(character) is not None


def visible(text: str) -> str:
    """Return `text` with U+FFFD for characters that move a terminal's cursor or reverse its text."""
    return text if text.isprintable() else _INVISIBLE.sub(REPLACEMENT, text)


def printable(text: str) -> str:
    """Return `text` with U+FFFD for bytes of a file name or variable that are not UTF-8, as JSON requires."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a lone surrogate from a JSON escape
        return "".join(REPLACEMENT if "\ud800" <= character <= "\udfff" else character for character in text)


def _printable(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case dict():
            return {_printable(name): _printable(item) for name, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
    return value
