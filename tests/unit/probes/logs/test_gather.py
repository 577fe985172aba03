"""Test that the readers of the table make a bounded number of events, and that sources are merged by time."""

from __future__ import annotations

import types
from typing import Any

import pytest

from probes.base.table_rows import Row
from probes.logs import gather
from probes.logs.event import Event, event_of, reporting
from probes.logs.events.log_record import LogRecord
from probes.logs.gather import EventBook, SourceReader
from probes.logs.ordering import merged
from probes.logs.reader_table import READERS


class Note(LogRecord, kw_only=True, tag="own.note"):
    """A record for these tests alone."""

    name: str = "a"


class OtherNote(Note, kw_only=True, tag="own.other-note"):
    """Another kind of record, for limits by kind."""


def event(name: str = "a", source: str = "x", number: int = 1, **others: Any) -> Event:
    return Event(what=Note(name=name), source=source, number=number, text="t", **others)


def test_rows_have_their_own_ids_and_load() -> None:
    assert len({row.id for row in READERS}) == len(READERS)
    for row in READERS:
        module = row.load()
        assert getattr(module, "SIGNS", ()) or hasattr(module, "read_document"), row.id


class _Row:
    """A row without a file."""

    def __init__(self, **module: object) -> None:
        self.id = "own"
        self.module = types.SimpleNamespace(**module)

    def load(self) -> object:
        return self.module


def rows(**module: object) -> tuple[Row, ...]:
    return (_Row(**module),)  # type: ignore[return-value]


def test_a_reader_sees_its_lines_without_envelopes_and_reports_at_the_end() -> None:
    class Reader:
        def read(self, line):
            return (event_of(Note(name=line.text), line),)

        def end(self):
            return (event("end"),)

    events: list[Event] = []
    reader = SourceReader("job.log", events.append, rows=rows(SIGNS=(b"wanted",), Reader=Reader))
    reader.feed(b"noise\n[rank3]: wan")
    reader.feed(b"ted 1")
    reader.end()
    assert [(each.what, each.rank, each.number) for each in events] == [
        (Note(name="wanted 1"), 3, 2),
        (Note(name="end"), None, 1),
    ]
    assert reader.lines_read == 2


def test_a_document_is_read_whole() -> None:
    def read_document(name: str, data: bytes) -> tuple[Event, ...]:
        return (event(f"{len(data)} bytes", source=name),)

    events: list[Event] = []
    for head, chunk in ((b'{"version": 1, ', b"x" * 90_000), (b"other ", b"x" * 90_000)):
        reader = SourceReader(
            "dump.json", events.append, rows=rows(DOCUMENT_SIGNS=(b'"version"',), read_document=read_document)
        )
        reader.feed(head)
        reader.feed(chunk)
        reader.end()
    assert [each.what for each in events] == [Note(name="90015 bytes")]


def test_the_like_is_counted_and_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    book = EventBook()
    for number in range(5):
        book.add(event(number=number + 1))
    (kept,) = book.events()
    assert (kept.number, kept.count, book.total) == (1, 5, 5)
    monkeypatch.setattr(gather, "MOST_OF_A_KIND", 3)
    for rank in range(9):
        book.add(reporting(event(rank=rank), OtherNote()))
    assert [each.rank for each in book.events() if each.kind == "own.other-note"] == [0, 1, 2]


def test_sources_are_merged_by_time_and_keep_their_own_order() -> None:
    day = 1.7e9
    events = [
        event("a.1", "a", time_s=day + 5),
        event("a.2", "a"),
        event("a.3", "a", time_s=day + 9),
        event("n.1", "no time"),
        event("b.1", "b"),
        event("b.2", "b", time_s=day + 7),
        event("b.3", "b", time_s=day + 6),
        event("k.1", "kernel", time_s=12.0),
    ]
    assert [each.what.name for each in merged(events)] == [
        "a.1",
        "a.2",
        "b.1",
        "b.2",
        "b.3",
        "a.3",
        "n.1",
        "k.1",
    ]
    assert merged([]) == []
