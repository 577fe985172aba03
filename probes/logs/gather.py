"""Collection of events: from the bytes of a source to a bounded number of events."""

import re
from collections.abc import Callable, Sequence

import msgspec

from probes.base.table_rows import Row
from probes.logs.envelopes import Unwrapper
from probes.logs.event import Event
from probes.logs.no_events import is_echo, without_data
from probes.logs.reader_table import READERS, document_readers, line_readers
from probes.logs.stream import LONGEST_LINE, LogStream, RawLine

MOST_OF_A_KIND = 20_000
MOST_EVENTS = 40_000
LONGEST_TEXT = 1000
"""Maximum number of characters of a line that are kept for display."""
HEAD_BYTES = 65536
"""Bytes at the start of a document that are searched for its signs."""
LARGEST_DOCUMENT_BYTES = 32 << 20
_TAIL_BYTES = 32768
_LAST_LINES = 60
"""Maximum number of lines at the end of a log that readers with `LINES_AFTER` get in any case."""
_LAST_PARTS = 4
"""If carriage returns redraw a line, the number of its last versions that are read."""
_FILLING = (b" NCCL INFO ", b" NCCL CALL ", b" NCCL TRACE ", b"srun: ", b"slurmstepd: ")
"""Marks of lines that the program itself did not write.

Such a line may announce a call that never completes.
"""
_NO_PROGRAM = re.compile(
    rb"^\W*$|^\s*#|^\s*\(.{0,400}\)\s*$|Warning\b|^.{0,80}(?:\[W\d{0,4}[ \]]|\b[WEI]\d{4} \d\d:)|"
    rb"(?i:\bhangs?\b|\bstuck\b|\bno (?:further|more) output|\bnothing (?:happens|more|else)\b)"
)
"""Lines that do not prove that a program continues: heads of tables, comments, warnings, people's notes."""

Sink = Callable[[Event], None]


class SourceReader:
    """Runs all readers on one source and passes each event to `sink`."""

    def __init__(
        self, name: str, sink: Sink, *, year: int | None = None, rows: Sequence[Row] = READERS
    ) -> None:
        """Start a source; `year` is used for time stamps without a year."""
        self.name = name
        self._sink = sink
        self._readers = line_readers(rows)
        self._stream: LogStream | None = LogStream(
            [reader.signs for reader in self._readers], [reader.lines_after for reader in self._readers]
        )
        self._lines = 0
        self._unwrapper = Unwrapper(name, year)
        self._rows = rows
        self._document: list[bytes] | None = []
        """The bytes read so far, while the source may still be a document."""
        self._size = 0
        self._tail = b""
        self._last_word = 0

    @property
    def lines_read(self) -> int:
        return self._stream.lines_read if self._stream is not None else self._lines

    @property
    def last_word(self) -> int:
        """Return the number of the last line that the program itself wrote.

        Blank lines, and lines of NCCL, launchers and libraries, do not count. Without a line of the program,
        the result is the number of the first line in the stored end of the log.
        """
        if self._stream is None:
            return self._last_word
        lines = self._tail.split(b"\n")
        own = next((place for place in range(len(lines) - 1, -1, -1) if not _is_filling(lines[place])), 0)
        return self.lines_read - (len(lines) - 1 - own) + (not lines[-1])

    def feed(self, chunk: bytes) -> None:
        """Read more of the source."""
        if self._stream is None:
            return
        self._keep(chunk)
        self._tail = (chunk if len(chunk) >= _TAIL_BYTES else self._tail + chunk)[-_TAIL_BYTES:]
        for raw in self._stream.feed(chunk):
            self._read(raw)

    def end(self) -> None:
        """End the source: read its last bytes, and collect the last events of readers."""
        if self._stream is None:
            return
        for raw in self._stream.finish():
            self._read(raw)
        self._read_tail()
        self._last_word, self._tail = self.last_word, b""
        self._lines, self._stream = (
            self._stream.lines_read,
            None,
        )  # the stream's memory is large for thousands of sources
        for reader in self._readers:
            self._pass_on(reader.end())
        if self._document:
            data = b"".join(self._document)
            for document in document_readers(self._rows):
                if any(sign in data[:HEAD_BYTES] for sign in document.signs):
                    self._pass_on(document.read(self.name, data))
        self._document = None

    def _read_tail(self) -> None:
        """Read the last lines again, for readers that need these lines even if they contain no sign."""
        places = tuple(place for place, reader in enumerate(self._readers) if reader.lines_after)
        lines = self._tail.split(b"\n")
        first = self.lines_read - len(lines) + 1 + (not lines[-1])
        for place, line in list(enumerate(lines))[-_LAST_LINES:]:
            parts = line.strip(b"\r").rsplit(b"\r", _LAST_PARTS)[-_LAST_PARTS:]
            for part in parts:
                if part and len(part) <= LONGEST_LINE:
                    self._read(RawLine(first + place, part, places))

    def _read(self, raw: RawLine) -> None:
        for line in self._unwrapper.lines(raw.number, raw.text):
            if is_echo(line.text):
                continue
            content = line if line.is_kernel else without_data(line)
            for place in raw.readers:
                self._pass_on(self._readers[place].read(content))

    def _pass_on(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._sink(event)

    def _keep(self, chunk: bytes) -> None:
        """Keep the bytes of a source that may be a document."""
        if self._document is None:
            return
        self._document.append(chunk)
        before, self._size = self._size, self._size + len(chunk)
        if self._size > LARGEST_DOCUMENT_BYTES:
            self._document = None
        elif before < HEAD_BYTES <= self._size:
            head = b"".join(self._document)[:HEAD_BYTES]
            if not any(sign in head for document in document_readers(self._rows) for sign in document.signs):
                self._document = None


class EventBook:
    """Events in bounded memory; equal events are stored once, with their count."""

    def __init__(self, longest_text: int = LONGEST_TEXT) -> None:
        """Start without events.

        `longest_text` is the maximum number of characters that are kept of a line.
        """
        self._longest_text = longest_text
        self._events: dict[tuple[object, ...], Event] = {}
        self._counts: dict[tuple[object, ...], int] = {}
        self._of_kind: dict[str, int] = {}
        self.total = 0
        """Number of events that were added, repetitions included."""

    def add(self, event: Event) -> None:
        """Add an event."""
        self.total += event.count
        key = (event.what, event.source, event.host, event.rank, event.local_rank)
        count = self._counts.get(key)
        if count is not None:
            self._counts[key] = count + event.count
            return
        kind = event.kind
        number = self._of_kind.get(kind, 0)
        if number >= MOST_OF_A_KIND or (len(self._events) >= MOST_EVENTS and number):
            return
        self._of_kind[kind] = number + 1
        if len(event.text) > self._longest_text:
            event = msgspec.structs.replace(event, text=event.text[: self._longest_text] + "…")
        self._events[key] = event
        self._counts[key] = event.count

    def events(self) -> list[Event]:
        """Return the events in the order in which each was first read."""
        return [
            event
            if event.count == self._counts[key]
            else msgspec.structs.replace(event, count=self._counts[key])
            for key, event in self._events.items()
        ]


def _is_filling(line: bytes) -> bool:
    return any(mark in line for mark in _FILLING) or _NO_PROGRAM.search(line) is not None
