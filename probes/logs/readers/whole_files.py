"""Helpers for readers of whole files: conversion of bytes to text, and lines as evidence."""

import re
from collections.abc import Sequence

from probes.base.patterns import pattern
from probes.base.record import EvidenceRef
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.log_record import LogRecord

_LONGEST = 1000
_LINE = pattern(r"\bline (\d{1,12})\b")


class Document:
    """A file as text, with access to single lines."""

    def __init__(self, name: str, data: bytes) -> None:
        """Store the bytes as text with uniform line ends; invalid UTF-8 is replaced."""
        encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
        self.name = name
        self.text = data.decode(encoding, errors="replace").replace("\r\n", "\n")
        self._ends: list[int] | None = None

    def event(self, what: LogRecord, evidence: Sequence[EvidenceRef]) -> Event:
        """Return an event at the first line that the references name, or else at line 1."""
        numbers = (match for ref in evidence if (match := _LINE.search(ref.detail)) is not None)
        first = next(numbers, None)
        return event_of(what, self.line(int(first[1]) if first else 1))

    def line(self, number: int) -> LogLine:
        """Return a line by its number from 1; an empty line if it does not exist."""
        if self._ends is None:
            self._ends = [match.start() for match in re.finditer("\n", self.text)]
        start = (
            0
            if number <= 1
            else self._ends[number - 2] + 1
            if number - 2 < len(self._ends)
            else len(self.text)
        )
        end = self._ends[number - 1] if 0 < number <= len(self._ends) else len(self.text)
        text = self.text[start : min(end, start + _LONGEST)]
        return LogLine(source=self.name, number=number, text=text, raw=text)
