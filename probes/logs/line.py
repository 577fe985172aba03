"""One line of a log, freed of what launchers, time stamps and terminals put around it."""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """A line and where it comes from. None where the line does not tell."""

    source: str
    """Name of the file, `-` for a pipe."""
    number: int
    """From 1."""
    text: str
    """Without prefixes and colours, at most 8 KiB."""
    host: str | None = None
    rank: int | None = None
    """Global rank, by the launcher's prefix or the line's own words."""
    local_rank: int | None = None
    pid: int | None = None
    time_s: float | None = None
    """Seconds since 1970 in UTC where the stamp has a date; only differences mean something where it has no
    zone.
    """
    raw: str = ""
    """As it stands in the file, for showing."""
    is_kernel: bool = False
    """Whether what was taken off is what kernels, and those who keep their messages, put around them."""
