"""Rows of checks that compare facts with limits, and of checks that look for events in logs.

A row of `probes/data/limit_checks/*.toml` names one or more facts of the machine, or of each of its devices,
and the rules for these facts. The first broken rule becomes the finding. `probes/checks/limit_checks.py`
evaluates the rows.

A row of `probes/data/log_checks.toml` names kinds of events and the rules for them. The first rule whose
conditions an event meets determines the finding. If no event matches a rule, the PASS mentions the events.
`probes/checks/log_checks.py` evaluates the rows. `probes/judging/check_table.py` orders all rows.
"""

import functools
from typing import Any, Literal

from probes.base.patterns import pattern
from probes.base.record import StrictRecord
from probes.base.rows import read_rows, row_text
from probes.base.table_rows import Group, Need, Tier

FILES = ("gpu", "host", "network")
_SYSCTL = pattern(r'"sysctl:([a-z0-9_.]+)"')

Each = Literal["gpus", "nics", "RoCE ports", "filesystems"]
Given = Literal["training ports"]
Where = Literal["GPUs", "no container", "x86_64", "aarch64"]
Skip = Literal["one NUMA node", "container", "another processor"]


class LimitRule(StrictRecord, kw_only=True):
    """A condition that a fact must meet, and the finding if it does not.

    The number of a comparison is written as a number, as the name of a threshold, or as the path of another
    fact of the same subject. In texts, `{value}`, `{limit}`, `{gpu}`, `{subject}`, `{counts}` and the path of
    any fact are replaced by the values read; a unit after the path, as in `{path:bytes}`, formats the value
    in that unit.
    """

    fact: str = ""
    """Path of the fact that the rule judges; empty for the fact of the check."""
    at_least: float | str | None = None
    at_most: float | str | None = None
    below: float | str | None = None
    one_of: tuple[str, ...] | None = None
    none_of: tuple[str, ...] | None = None
    on: bool | None = None
    """The value that a switch must have."""
    as_most: Literal["all", "model"] | None = None
    """Group of devices that must have the most frequent value: all, or those with the same model."""
    empty: bool = False
    """True if the fact is a list that must have no entry."""
    slack: float | str = 0.0
    """Amount by which the fact may miss the limit."""
    limit: str = ""
    """Name by which a policy sets the number of this rule, and by which other checks use it."""
    source: str = ""
    date: str = ""
    where: Where | None = None
    """Machines to which the rule applies; None for all machines."""
    optional: bool = False
    """True if the rule is left out when its fact is unknown; otherwise the check becomes UNKNOWN.

    The check also becomes UNKNOWN if all its rules are left out.
    """
    status: Literal["WARN", "FAIL"] = "WARN"
    bad: str
    expected: str = ""
    seen: str = ""
    fix: str = ""
    command: str = ""
    root: bool = False
    reversible: bool = True


class LimitCheck(StrictRecord, kw_only=True):
    """A check of one fact, or of several related facts."""

    id: str
    title: str
    group: Group
    required: bool = False
    tier: Tier = "quick"
    state: bool = False
    """True if the fact is a state that is not a fault of a node in use; monitoring skips the check."""
    needs: tuple[Need, ...] = ()
    each: Each | None = None
    """The devices that are judged one by one; None for the machine as a whole."""
    alone: str = ""
    """Summary of the SKIP if there is only one device, which cannot be compared with any other."""
    given: Given | None = None
    """Part of the machine that the check needs; without this part, the result is one SKIP."""
    fact: str
    what: str
    """Text that completes "... could not be read"."""
    good: str
    why: str
    """Reason why the check matters for training."""
    source: str
    unit: str = ""
    """Unit of the fact: `bytes`, `fraction`, `s`, `W`, or words that follow the number."""
    words: tuple[str, str] = ("off", "on")
    """Words for a switch that is off, and for one that is on."""
    seen: str = "{value}"
    fix: str = ""
    """Remedy for rules without their own, with `command`, `root` and `reversible`."""
    command: str = ""
    root: bool = False
    reversible: bool = True
    skip: dict[Skip, str] = {}
    """Kinds of machine for which the check is skipped, each with the summary of its SKIP.

    A kind applies only if all facts listed in `known` are known.
    """
    absent: str = ""
    """Summary of the SKIP if the machine does not have the fact, or the file or tool with the fact.

    If this summary is empty, a missing file or tool results in UNKNOWN.
    """
    essential: bool = False
    """True if every machine must have the fact; if it is missing, the result is UNKNOWN instead of SKIP."""
    unsupported: tuple[str, ...] = ()
    """Values that mean that the device does not have the fact."""
    known: tuple[str, ...] = ()
    """Further facts that must be known; otherwise the check becomes UNKNOWN."""
    only_known: str = ""
    """Summary of the SKIP if no device has a known fact.

    If set, the check also leaves out devices without a known fact.
    """
    rules: tuple[LimitRule, ...]


@functools.lru_cache(maxsize=1)
def limit_rows() -> dict[str, dict[str, Any]]:
    """Return the unconverted rows by their ids. A row with a mistake fails when its own check runs."""
    return {row["id"]: row for name in FILES for row in read_rows(f"limit_checks/{name}")["check"]}


def named_limits() -> dict[str, dict[str, Any]]:
    """Return the numbers of the rules whose limit has a name, by this name, with source and date."""
    rules = (rule for row in limit_rows().values() for rule in row["rules"] if "limit" in rule)
    return {
        rule["limit"]: {
            "value": next(rule[key] for key in ("at_least", "at_most", "below") if key in rule),
            "source": rule.get("source", ""),
            "date": rule.get("date", ""),
        }
        for rule in rules
    }


def sysctl_names() -> tuple[str, ...]:
    """Return the kernel settings in rows: `vm.swappiness` for `fact = "sysctl:vm.swappiness"`."""
    return tuple(
        sorted({name for file in FILES for name in _SYSCTL.findall(row_text(f"limit_checks/{file}"))})
    )


class LogRule(StrictRecord, kw_only=True):
    """Conditions on an event, and the finding for the event. A condition that is left out is always true."""

    kinds: tuple[str, ...] = ()
    fatal: bool | None = None
    contains: tuple[str, ...] = ()
    """Words; the message must contain at least one of them."""
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
    """True if events are included that a later boot or recovery has resolved."""
    without: str = ""
    """Events whose message contains this text are left out; empty to keep all events."""
    subject: Literal["host", "device", "training device"] = "host"
    """Subject of a finding: the machine, the event's device, or that device if training uses it."""
    limit: str = ""
    """Threshold above which an event is frequent; `{limit}` in `expected` is replaced by the threshold."""
    expected: str
    good: str
    why: str
    source: str
    fix: str = ""
    """Remedy for rules without their own."""
    command: str = ""
    root: bool = False
    rules: tuple[LogRule, ...]


@functools.lru_cache(maxsize=1)
def log_rows() -> dict[str, dict[str, Any]]:
    """Return the unconverted rows by their ids. A row with a mistake fails when its own check runs."""
    return {row["id"]: row for row in read_rows("log_checks")["check"]}
