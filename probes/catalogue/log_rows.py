"""The rows of checks that look for events in logs: `probes/data/log_checks.toml`.

A row names kinds of events and gives rules. The first rule that fits an event writes its finding; an event
that no rule fits is only mentioned. `probes/checks/log_checks.py` evaluates the rows.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

from probes.base.record import StrictRecord
from probes.base.rows import read_rows
from probes.base.table_rows import Group, Need


class LogRule(StrictRecord, kw_only=True):
    """Conditions on an event, and the finding that it becomes. A condition that is left out holds."""

    kinds: tuple[str, ...] = ()
    fatal: bool | None = None
    contains: tuple[str, ...] = ()
    """Words of which the message has one."""
    often: bool = False
    """True if the event must occur more often than the limit of the check."""
    status: Literal["WARN", "FAIL"] = "WARN"
    bad: str
    fix: str = ""


class LogCheck(StrictRecord, kw_only=True):
    """A check of the events of some kinds."""

    id: str
    title: str
    group: Group
    needs: tuple[Need, ...] = ("logs",)
    log: str = "kernel-log"
    """The kind of log that must have been read (`probes/catalogue/text_kinds.py`)."""
    kinds: tuple[str, ...]
    settled: bool = False
    """True if events count that a later boot or recovery has settled."""
    without: str = ""
    """Leave out events whose message has these words."""
    subject: Literal["host", "device", "training device"] = "host"
    """Subject of a finding: the machine, the event's device, or that device if training uses it."""
    limit: str = ""
    """The threshold above which an event came often; `{limit}` in `expected` stands for it."""
    expected: str
    good: str
    why: str
    source: str
    fix: str = ""
    """The remedy of rules that give none."""
    command: str = ""
    root: bool = False
    rules: tuple[LogRule, ...]


@functools.lru_cache(maxsize=1)
def log_rows() -> dict[str, dict[str, Any]]:
    """Return the rows by their ids, as they stand in the file: one with a mistake fails in its own check."""
    return {row["id"]: row for row in read_rows("log_checks")["check"]}
