"""Results of `rigtune explain`: the causes that the events of logs reveal, ranked, with their evidence."""

from typing import Any, Literal

from probes.base.record import Record

SCHEMA_VERSION = 1

State = Literal["healthy", "fault", "unknown"]
"""State of the run; `fault` if and only if the first diagnosis is a fault."""


class EvidenceLine(Record, kw_only=True):
    """A line that supports a diagnosis."""

    source: str
    line: int
    """Line number from 1; 0 for evidence outside the logs, such as the machine's facts or the recipe."""
    text: str
    host: str | None = None
    rank: int | None = None
    time_s: float | None = None


class Diagnosis(Record, kw_only=True):
    """A diagnosis: one cause with its evidence."""

    cause_id: str
    """An id of `probes/data/causes.toml`."""
    confidence: float
    """Confidence from 0 to 1."""
    summary: str
    """Sentence about what happened and why, with the first host and rank."""
    remedy: str
    command: str | None = None
    """Command to inspect or fix the fault; rigtune never runs it."""
    is_fault: bool = True
    """False for `healthy` and for informative causes."""
    secondary: tuple[str, ...] = ()
    """Descriptions of the effects of this cause in the same logs."""
    evidence: tuple[EvidenceLine, ...] = ()
    source: str = ""
    """Source of the diagnosis: documentation, code, issue."""
    versions: str = ""
    """Versions of NCCL, PyTorch or the driver that have or fix the fault; empty if versions do not matter."""


class Explanation(Record, kw_only=True):
    """The explanation of some logs."""

    schema_version: int = SCHEMA_VERSION
    state: State
    diagnoses: tuple[Diagnosis, ...]
    """Diagnoses, the best first."""
    facts: dict[str, Any] = {}
    """Facts of the run: version, interfaces, transports, ranks, timings, environment (`facts.py`)."""
    expected: tuple[str, ...] = ()
    """Phrases about the performance that a healthy run with these machines and ranks would reach."""
    collect_next: tuple[str, ...] = ()
    """Data to collect if the cause is unknown or the log ends too early."""
    lines_read: int = 0
    sources: tuple[str, ...] = ()
