"""Rows of `probes/data/causes.toml`: the events by which each fault is recognised."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows

Condition = str | bool | int | float | list[str | int | float]


class EventPattern(StrictRecord, kw_only=True):
    """An event of a kind whose fields meet conditions."""

    event: str
    """Kind of the event; `nccl.ib.*` means any kind with that prefix, `nccl.warning|nccl.notice` either."""
    where: dict[str, Condition] = {}
    """Condition of each field.

    A value; a list of values; `~` with a regular expression, `!~` with one that must not match; `>`, `>=`,
    `<` or `<=` with a number; `*` for any value; `-` for a field that the line does not name.
    """
    at_least: int = 1
    """Smallest number of such events, counted over all their lines."""


class Pattern(EventPattern, kw_only=True):
    """A pattern of events by which a cause shows."""

    confidence: float
    """Confidence from 0 to 1 if only this pattern fits."""
    machine: tuple[str, ...] = ()
    """Ids of checks, one of which the machine must fail."""
    when: str = ""
    """Name of a condition of `probes/logs/causes/conditions.py`, for what needs more than one event."""
    fault: bool | None = None
    """Replaces the cause's own value where it is set."""
    root: bool = False
    """Whether this causes all symptoms beside it; a symptom then does not cause it."""
    doubt: bool = False
    """Whether the run may have failed: it is not called healthy, though this is no fault by itself."""
    summary: str = ""
    """Replaces the cause's own value where it is set."""
    remedy: str = ""
    """Replaces the cause's own value where it is set."""
    command: str = ""
    """Replaces the cause's own value where it is set."""

    @property
    def is_alone(self) -> bool:
        """Return whether one event is enough for the pattern."""
        return not self.machine and not self.when and self.at_least == 1


class Cause(StrictRecord, kw_only=True):
    """A cause of a failed or slow run."""

    id: str
    title: str
    fault: bool = True
    symptom: bool = False
    """Whether any other fault explains this cause, which is then reported as an effect."""
    summary: str
    """Sentence with fields of the first event as `{field}`; a part in [brackets] needs its field to be known.
    """
    remedy: str
    command: str | None = None
    source: str
    versions: str = ""
    """Versions of NCCL, PyTorch or the driver that show or fix the fault."""
    effects: tuple[str, ...] = ()
    """Ids of causes that follow from this cause: where both occur, they are secondary."""
    pattern: tuple[Pattern, ...] = ()


class Collect(StrictRecord, kw_only=True):
    """A request for data where the cause is not known."""

    text: str
    """Words of the request, filled with the fields of the first event of `when`."""
    when: tuple[str, ...] = ()
    """Kinds of events of which one must have been seen; empty for always."""
    unless: tuple[str, ...] = ()
    """Kinds of events whose presence makes the request needless."""


class CauseRows(StrictRecord, kw_only=True):
    """The whole table."""

    date: str
    failures: tuple[str, ...]
    """Kinds of events that are evidence of a failure even where no cause explains them."""
    complaints: frozenset[str]
    """Kinds of failures that runs may survive: alone they are no evidence that the run failed."""
    of_peers: frozenset[str]
    """Kinds that a rank or launcher reports after another rank ended, for whatever reason."""
    collect: tuple[Collect, ...]
    cause: tuple[Cause, ...]

    def find(self, cause_id: str) -> Cause:
        """Return the row of an id. Raises KeyError for an unknown id."""
        return {row.id: row for row in self.cause}[cause_id]


@functools.lru_cache(maxsize=1)
def load_causes() -> CauseRows:
    """Return the rows shipped with rigtune, without patterns that are broken."""
    return sound_rows(read_rows("causes"))[0]


def sound_rows(table: dict[str, Any]) -> tuple[CauseRows, dict[str, str]]:
    """Return the rows that can be read, and by the id of its cause what is wrong with each other pattern."""
    broken: dict[str, str] = {}
    causes = []
    for row in table["cause"]:
        patterns = []
        for pattern in row.get("pattern", ()):
            try:
                patterns.append(msgspec.convert(pattern, Pattern))
            except msgspec.ValidationError as error:
                broken[row["id"]] = str(error)
        causes.append(
            msgspec.structs.replace(msgspec.convert({**row, "pattern": []}, Cause), pattern=tuple(patterns))
        )
    others = msgspec.convert({**table, "cause": []}, CauseRows)
    return msgspec.structs.replace(others, cause=tuple(causes)), broken
