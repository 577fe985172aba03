"""A line of a log without the prefixes of launchers, time stamps and terminals."""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """A line and its origin; None where the line does not name it."""

    source: str
    """Name of the file, `-` for a pipe."""
    number: int
    """Number of the line, from 1."""
    text: str
    """Text without prefixes and colours, at most 8 KiB."""
    host: str | None = None
    rank: int | None = None
    """Global rank, by the launcher's prefix or the line's own words."""
    local_rank: int | None = None
    pid: int | None = None
    time_s: float | None = None
    """Seconds since 1970 in UTC if the stamp has a date; without a zone only differences are meaningful."""
    raw: str = ""
    """The original line of the file, as shown to people."""
    is_kernel: bool = False
    """Whether the removed prefix is that of a kernel or of a service that keeps kernel messages."""
