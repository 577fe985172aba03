"""What happened, as `rigtune explain` tells it: the causes that the events of logs reveal, ranked, with their
evidence.
"""

from __future__ import annotations

from typing import Any, Literal

from probes.base.record import Record
from probes.logs.event import Event, Value

SCHEMA_VERSION = 1

State = Literal["healthy", "fault", "unknown"]
"""`fault` where and only where the first diagnosis is a fault: the logs say that something failed, whosever
fault it was.
"""


class EvidenceLine(Record, kw_only=True):
    """A line that a diagnosis rests on."""

    source: str
    line: int
    """From 1; 0 for what stands in no log: the machine's facts, the recipe."""
    text: str
    host: str | None = None
    rank: int | None = None
    time_s: float | None = None


class Diagnosis(Record, kw_only=True):
    """One cause."""

    cause_id: str
    """An id of `probes/data/causes.toml`."""
    confidence: float
    """From 0 to 1."""
    summary: str
    """What happened, on which host and rank first, and why."""
    remedy: str
    command: str | None = None
    """To see or to mend it, never run by rigtune."""
    is_fault: bool = True
    """False for `healthy` and for informative causes."""
    secondary: tuple[str, ...] = ()
    """Effects of this cause that were also seen, in words."""
    evidence: tuple[EvidenceLine, ...] = ()
    source: str = ""
    """Who says so: documentation, code, issue."""
    versions: str = ""
    """Of NCCL, PyTorch or the driver, where it shows or is mended; empty where that does not depend on
    them.
    """


class Explanation(Record, kw_only=True):
    """The answer to "what does this log say"."""

    schema_version: int = SCHEMA_VERSION
    state: State
    diagnoses: tuple[Diagnosis, ...]
    """Best first."""
    facts: dict[str, Any] = {}
    """Of the run: version, interfaces, transports, channels, ranks, timings, environment
    (`probes/logs/facts.py`).
    """
    expected: tuple[str, ...] = ()
    """What a healthy run of this shape reaches, in words."""
    collect_next: tuple[str, ...] = ()
    """Where the cause is unknown."""
    lines_read: int = 0
    sources: tuple[str, ...] = ()


__all__ = ["Diagnosis", "Event", "EvidenceLine", "Explanation", "Value"]
