"""How checks look at environment variables, and how NCCL matches names of interfaces and ports with its
lists.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from probes.base.record import Record, Unknown, known
from probes.facts import EnvironmentVariable, MachineFacts
from probes.judging.findings import Evidence, Finding, Findings, Judge
from probes.judging.reporting import HOST, Check, given

Variables = dict[str, EnvironmentVariable]


def variables_of(judge: Judge, evidence: Evidence) -> Generator[Finding, None, Variables | None]:
    """The variables that count, by name. Where they could not be read, one UNKNOWN says so, and None comes
    back.
    """
    environment = evidence.facts.environment
    if isinstance(environment, Unknown):
        yield judge.undetermined(HOST, environment, what="the environment")
        return None
    return {variable.name: variable for variable in environment if variable.is_effective}


def on_variables(judge: Judge) -> Callable[[Callable[[Variables, Evidence], Findings]], Check]:
    """Give a check the environment variables that count, by name."""
    return given(judge, variables_of)


def nccl_version(facts: MachineFacts) -> str | Unknown | None:
    """The NCCL that torch brings, else the one of the system; None where there is none."""
    brought = facts.training.nccl_version
    if known(brought) and brought is not None:
        return brought
    system = facts.software.nccl_version
    return brought if system is None else system


class NameList(Record, kw_only=True):
    """A list of names as NCCL takes it: `^` in front excludes, `=` makes the names exact instead of
    beginnings.
    """

    excludes: bool
    exact: bool
    names: tuple[str, ...]


def parse_names(text: str) -> NameList:
    """`^=docker0,lo` and its simpler forms."""
    excludes = text.startswith("^")
    rest = text[1:] if excludes else text
    exact = rest.startswith("=")
    parts = (rest[1:] if exact else rest).split(",")
    return NameList(excludes=excludes, exact=exact, names=tuple(part for part in parts if part))


def chosen(wanted: NameList, names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` that the list lets through, in their order."""

    def is_listed(name: str) -> bool:
        return any(name == entry if wanted.exact else name.startswith(entry) for entry in wanted.names)

    return tuple(name for name in names if is_listed(name) != wanted.excludes)


def setting(variable: EnvironmentVariable) -> str:
    """`NCCL_IB_TIMEOUT=300`, with the file that sets it."""
    words = f"{variable.name}={variable.value[:80]}"
    return words if variable.origin == "environment" else f"{words} ({variable.origin})"


def removal(variable: EnvironmentVariable) -> str:
    """The command that takes the variable away; empty where a file sets it."""
    is_plain = variable.name.replace("_", "").isalnum()
    return f"unset {variable.name}" if variable.origin == "environment" and is_plain else ""
