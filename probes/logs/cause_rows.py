"""Rows of `probes/data/causes.toml`: the events that reveal each fault."""

import functools
from typing import Any

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows

Condition = str | bool | int | float | list[str | int | float]


class EventPattern(StrictRecord, kw_only=True):
    """An event of a kind whose fields meet conditions."""

    event: str
    """Kind of the event; `nccl.ib.*` means any kind with that prefix, and `|` separates alternatives."""
    where: dict[str, Condition] = {}
    """Condition of each field.

    A value, or a list of values; `~` with a regular expression, or `!~` with an expression that must not
    match; `>`, `>=`, `<` or `<=` with a number; `*` for any value; `-` if the line does not name the field.
    """
    at_least: int = 1
    """Minimum number of matching events; repeated lines count separately."""


class Pattern(EventPattern, kw_only=True):
    """A pattern of events that reveals a cause."""

    confidence: float
    """Confidence of the pattern, from 0 to 1."""
    machine: tuple[str, ...] = ()
    """Ids of checks; the machine must fail at least one of them."""
    when: str = ""
    """Name of a condition in `probes/logs/causes/conditions.py` that must also hold; empty for none."""
    fault: bool | None = None
    """Value that replaces `fault` of the cause; None keeps the value of the cause."""
    root: bool = False
    """True if this pattern of a symptom explains all other symptoms, and no symptom explains it."""
    doubt: bool = False
    """True if the pattern is no fault but leaves doubt: rigtune then does not report the run as healthy."""
    summary: str = ""
    """Text that replaces `summary` of the cause; empty to keep the text of the cause."""
    remedy: str = ""
    """Text that replaces `remedy` of the cause; empty to keep the text of the cause."""
    command: str = ""
    """Text that replaces `command` of the cause; empty to keep the text of the cause."""

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
    """True for a symptom, which is reported as an effect of every fault that is not itself a symptom."""
    summary: str
    """Sentence with fields of the matching events as `{field}`; the first event that has a field counts.

    A part in [brackets] is omitted if its field is unknown.
    """
    remedy: str
    command: str | None = None
    source: str
    versions: str = ""
    """Versions of NCCL, PyTorch or the driver that have the fault or fix it."""
    effects: tuple[str, ...] = ()
    """Ids of causes that are effects of this cause: if both occur, they are reported as secondary."""
    pattern: tuple[Pattern, ...] = ()


class Collect(StrictRecord, kw_only=True):
    """A request for data if the cause is unknown."""

    text: str
    """Text of the request, filled with fields of the events of `when`."""
    when: tuple[str, ...] = ()
    """Kinds of events of which at least one must occur; empty if the request always applies."""
    unless: tuple[str, ...] = ()
    """Kinds of events that make the request unnecessary."""


class CauseRows(StrictRecord, kw_only=True):
    """The whole table."""

    date: str
    failures: tuple[str, ...]
    """Kinds of events that are evidence of a failure even if no cause explains them."""
    complaints: frozenset[str]
    """Kinds of failures that runs may survive: alone, they do not prove that the run failed."""
    of_peers: frozenset[str]
    """Kinds of events that a rank or launcher reports because another rank has ended, for whatever reason."""
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
    """Return the rows without broken patterns, and the last error message by the id of each such cause."""
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
