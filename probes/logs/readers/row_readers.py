"""Log readers that consist of tables of rows.

Each row has a search word, the pattern of the message, and the type of the resulting record.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.log_record import LogRecord, Value, field_of

_RANK = pattern(r"\[(?:PG [^\]\n]{0,80}? )?[Rr]ank ?(\d{1,7})\]")
_INTEGER = pattern(r"-?\d{1,18}")
_GROUP_NAME = pattern(r"\(\?P<(\w+)>")
_LONGEST = 300

Finish = Callable[[dict[str, Any]], LogRecord]
"""Function that makes the record from the fields of a message, if a conversion of types is not enough."""


class Row(NamedTuple):
    """A kind of log message: how it is found, and which record is made of it."""

    word: str
    """Text that every such message contains; used to search quickly for lines that the reader may parse."""
    shape: re.Pattern[str]
    """Pattern whose named groups become fields of the record."""
    fields: Mapping[str, Any]
    """Fields with a fixed value."""
    groups: tuple[tuple[str, Callable[[str], Value | None]], ...]
    """Functions that convert the texts of named groups to the types of the fields.

    If `row` is called with `finish`, the groups of boolean fields stay text.
    """
    finish: Finish

    def record(self, match: re.Match[str]) -> LogRecord:
        """Return the record of a message."""
        fields = {**self.fields}
        for name, convert in self.groups:
            text = match[name]
            if text is not None and (value := convert(text)) is not None:
                fields[name] = value
        return self.finish(fields)


def row(
    record: type[LogRecord], word: str, shape: str = "", *, finish: Finish | None = None, **fields: Any
) -> Row:
    """Return a row of a reader. If `shape` is missing, `word` is the whole pattern."""
    types = {field.name: field.type for field in msgspec.structs.fields(record)}
    conversions = ((name, _conversion(types.get(name, str))) for name in _GROUP_NAME.findall(shape))
    groups = tuple((name, words_of if finish and each is flag_of else each) for name, each in conversions)
    pattern_of_row = pattern(shape or re.escape(word))
    return Row(word, pattern_of_row, fields, groups, finish or _record_of(record))


def signs(rows: tuple[Row, ...]) -> tuple[bytes, ...]:
    """Return the search words of some rows, without repetitions."""
    return tuple(dict.fromkeys(each.word.encode() for each in rows))


def read_rows(rows: tuple[Row, ...], line: LogLine) -> tuple[Event, ...]:
    """Return the event of the first row that fits, if any."""
    text = line.text
    for each in rows:
        if each.word in text and (match := each.shape.search(text)) is not None:
            return (with_rank(event_of(each.record(match), line)),)
    return ()


def fields_of(match: re.Match[str]) -> dict[str, Value]:
    """Return the named groups of a match, without surrounding blanks."""
    return {name: value_of(text) for name, text in match.groupdict().items() if text is not None}


def value_of(text: str) -> Value:
    """Return a whole number as a number, and anything else as text of bounded length."""
    text = text.strip()
    return int(text) if _INTEGER.fullmatch(text) else text[:_LONGEST]


def words_of(text: str) -> str:
    """Return the text without surrounding blanks, cut to a maximum length."""
    return text.strip()[:_LONGEST]


def whole_of(text: str) -> int | None:
    """Return the text as a whole number, or None if it is not a whole number."""
    text = text.strip()
    return int(text) if _INTEGER.fullmatch(text) else None


def number_of(text: str) -> float | None:
    """Return the text as a number, or None if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return None


def flag_of(text: str) -> bool:
    """Return whether the text is neither empty nor `0`."""
    return text not in {"", "0"}


def with_rank(event: Event) -> Event:
    """Return the event with the rank that its text names.

    Examples are `[Rank 3]` and `[PG ID 0 PG GUID 0(default_pg) Rank 3]`.
    """
    rank = field_of(event.what, "rank")
    if not isinstance(rank, int):
        match = _RANK.search(event.text)
        rank = int(match[1]) if match else None
    return event if rank is None or rank == event.rank else msgspec.structs.replace(event, rank=rank)


def _record_of(record: type[LogRecord]) -> Finish:
    return lambda fields: record(**fields)


def _conversion(annotation: Any) -> Callable[[str], Value | None]:
    """Return the function that converts the text of a group to the type of its field."""
    types = set(getattr(annotation, "__args__", (annotation,))) - {type(None)}
    if types == {str}:
        return words_of
    if types == {int}:
        return whole_of
    if types == {float}:
        return number_of
    if types == {bool}:
        return flag_of
    return value_of
