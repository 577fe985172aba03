"""What faults look like in events: rows of `probes/data/causes.toml`."""

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
    """Its kind; `nccl.ib.*` for all kinds that begin so, `nccl.warning|nccl.notice` for either."""
    where: dict[str, Condition] = {}
    """By field: a value, a list of values, `~` and a regular expression, `!~` and one that must not be found,
    `>`, `>=`, `<` or `<=` and a number, `*` for any value, `-` for no such field.
    """
    at_least: int = 1
    """How often, over all its lines."""


class Pattern(StrictRecord, kw_only=True):
    """One way in which a cause shows."""

    event: str
    where: dict[str, Condition] = {}
    at_least: int = 1
    confidence: float
    """From 0 to 1, where only this pattern speaks."""
    machine: tuple[str, ...] = ()
    """Checks of which the machine must fail one."""
    when: str = ""
    """Name of a condition of `probes/logs/causes/conditions.py`, for what needs more than one event."""
    fault: bool | None = None
    """Where it differs from the cause's own."""
    root: bool = False
    """True where this brings about all symptoms beside it, and only a cause that is none brings it about."""
    doubt: bool = False
    """True where the run may well have failed, so that it is not called healthy, though this is no fault by
    itself.
    """
    summary: str = ""
    """Where it differs from the cause's own."""
    remedy: str = ""
    """Where it differs from the cause's own."""
    command: str = ""
    """Where it differs from the cause's own."""

    @property
    def main(self) -> EventPattern:
        return EventPattern(event=self.event, where=self.where, at_least=self.at_least)

    @property
    def is_alone(self) -> bool:
        """Whether one event is enough for it."""
        return not self.machine and not self.when and self.at_least == 1


class Cause(StrictRecord, kw_only=True):
    """One cause."""

    id: str
    title: str
    fault: bool = True
    symptom: bool = False
    """True where any other fault explains it, so that it is told as an effect of that one."""
    summary: str
    """`{field}` takes fields of the first event; a part in [brackets] is left out where its field is not
    known.
    """
    remedy: str
    command: str | None = None
    source: str
    versions: str = ""
    """Of NCCL, PyTorch or the driver, where it shows or is mended."""
    effects: tuple[str, ...] = ()
    """Causes that this one brings about: where both are seen, they are secondary."""
    pattern: tuple[Pattern, ...] = ()


class Collect(StrictRecord, kw_only=True):
    """What to collect next where the cause is not known."""

    text: str
    """Filled with the fields of the first event of `when`, as a summary is."""
    when: tuple[str, ...] = ()
    """Kinds of events of which one must have been seen; empty for always."""
    unless: tuple[str, ...] = ()
    """Kinds that say that it is there already."""


class CauseRows(StrictRecord, kw_only=True):
    """The whole table."""

    date: str
    failures: tuple[str, ...]
    """Kinds of events that are evidence of a failure even where no cause explains them."""
    complaints: frozenset[str]
    """Those of them that runs may survive: they do not say by themselves that something failed."""
    of_peers: frozenset[str]
    """Kinds that a rank or launcher tells when another one is gone, whatever that one ended by."""
    collect: tuple[Collect, ...]
    cause: tuple[Cause, ...]

    def find(self, cause_id: str) -> Cause:
        """The row of an id; KeyError for an unknown one."""
        return self.by_id[cause_id]

    @property
    def by_id(self) -> dict[str, Cause]:
        return _by_id()


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


@functools.lru_cache(maxsize=1)
def _by_id() -> dict[str, Cause]:
    return {row.id: row for row in load_causes().cause}
