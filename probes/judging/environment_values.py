"""Read environment variables for checks, and match names of interfaces and ports as NCCL does."""

from collections.abc import Callable, Generator, Iterable

from probes.base.record import Record, Unknown, known
from probes.facts import EnvironmentVariable, MachineFacts
from probes.judging.findings import Evidence, Finding, Findings, Judge
from probes.judging.reporting import HOST, Check, given

Variables = dict[str, EnvironmentVariable]


def variables_of(judge: Judge, evidence: Evidence) -> Generator[Finding, None, Variables | None]:
    """Return the effective variables by name.

    If they could not be read, yield one UNKNOWN and return None.
    """
    environment = evidence.facts.environment
    if isinstance(environment, Unknown):
        yield judge.undetermined(HOST, environment, what="the environment")
        return None
    return {variable.name: variable for variable in environment if variable.is_effective}


def on_variables(judge: Judge) -> Callable[[Callable[[Variables, Evidence], Findings]], Check]:
    """Decorate a check so that it receives the effective environment variables by name."""
    return given(judge, variables_of)


def nccl_version(facts: MachineFacts) -> str | Unknown | None:
    """Return the version of torch's NCCL, or else of the system's NCCL; None if neither is installed."""
    brought = facts.training.nccl_version
    if known(brought) and brought is not None:
        return brought
    system = facts.software.nccl_version
    return brought if system is None else system


USERS_SOFTWARE = (
    "users bring their own software; to judge an interpreter, name it with --python or in the policy"
)


def asks_for_training(evidence: Evidence, check_id: str) -> bool:
    """Return whether the user or the policy requests that the training software is judged.

    Otherwise it is not judged, because the first interpreter on the PATH is not a property of the node.
    """
    policy = evidence.policy
    is_expected = policy.software.torch is not None or policy.software.nccl is not None
    return evidence.facts.training.found_by == "--python" or is_expected or check_id in policy.checks.required


def judged_nccl_version(evidence: Evidence, check_id: str) -> str | Unknown | None:
    """Return the NCCL version to judge.

    This is the version of `nccl_version` if the training software is judged, else that of the system.
    """
    facts = evidence.facts
    return nccl_version(facts) if asks_for_training(evidence, check_id) else facts.software.nccl_version


class NameList(Record, kw_only=True):
    """A list of names in NCCL's form.

    A leading `^` excludes the names. A leading `=` means that the names are exact; otherwise they are
    prefixes.
    """

    excludes: bool
    exact: bool
    names: tuple[str, ...]


def parse_names(text: str) -> NameList:
    """Parse a list of names such as `^=docker0,lo`."""
    excludes = text.startswith("^")
    rest = text[1:] if excludes else text
    exact = rest.startswith("=")
    parts = (rest[1:] if exact else rest).split(",")
    return NameList(excludes=excludes, exact=exact, names=tuple(part for part in parts if part))


def chosen(wanted: NameList, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that the list admits, in the order of `names`."""

    def is_listed(name: str) -> bool:
        return any(name == entry if wanted.exact else name.startswith(entry) for entry in wanted.names)

    return tuple(name for name in names if is_listed(name) != wanted.excludes)


def setting(variable: EnvironmentVariable) -> str:
    """Return the setting as text, such as `NCCL_IB_TIMEOUT=300`, with the file that sets it."""
    words = f"{variable.name}={variable.value[:80]}"
    return words if variable.origin == "environment" else f"{words} ({variable.origin})"


def removal(variable: EnvironmentVariable) -> str:
    """Return the command that removes the variable.

    The command is empty if a file sets the variable, or if its name could have a meaning for a shell.
    """
    is_plain = variable.name.replace("_", "").isalnum()
    return f"unset {variable.name}" if variable.origin == "environment" and is_plain else ""
