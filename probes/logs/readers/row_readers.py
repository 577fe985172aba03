"""Readers that are tables: a word that the line must have, what it says then, and the name of the event."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, Value, event_of
from probes.logs.line import LogLine

_RANK = pattern(r"\[(?:PG [^\]\n]{0,80}? )?[Rr]ank ?(\d{1,7})\]")
_INTEGER = pattern(r"-?\d{1,18}")
_LONGEST = 300


class Row(NamedTuple):
    """One message. Named groups of `shape` become fields; whole numbers become integers."""

    kind: str
    word: str
    """Every such message has it; the signs of a reader are these words."""
    shape: re.Pattern[str]
    fields: dict[str, Value] = {}
    """That every event of the row has."""


def row(kind: str, word: str, shape: str = "", **fields: Value) -> Row:
    """A row; the word alone where there is no `shape`."""
    return Row(kind, word, pattern(shape or re.escape(word)), fields)


def signs(rows: tuple[Row, ...]) -> tuple[bytes, ...]:
    """The words of some rows, each once."""
    return tuple(dict.fromkeys(each.word.encode() for each in rows))


def read_rows(rows: tuple[Row, ...], line: LogLine) -> tuple[Event, ...]:
    """The event of the first row that fits, none where none does."""
    text = line.text
    for each in rows:
        if each.word in text and (match := each.shape.search(text)) is not None:
            return (with_rank(event_of(each.kind, line, {**each.fields, **fields_of(match)})),)
    return ()


def fields_of(match: re.Match[str]) -> dict[str, Value]:
    """The named groups that took part, without blanks around them."""
    return {name: value_of(text) for name, text in match.groupdict().items() if text is not None}


def value_of(text: str) -> Value:
    """A whole number as such, all else as text of bounded length."""
    text = text.strip()
    return int(text) if _INTEGER.fullmatch(text) else text[:_LONGEST]


def with_rank(event: Event) -> Event:
    """The event with the rank that its own words name (`[Rank 3]`, `[PG ID 0 PG GUID 0(default_pg) Rank 3]`,
    `[rank3]`).
    """
    rank = event.fields.get("rank")
    if not isinstance(rank, int):
        match = _RANK.search(event.text)
        rank = int(match[1]) if match else None
    return event if rank is None or rank == event.rank else msgspec.structs.replace(event, rank=rank)
