"""Parse NCCL's configuration files exactly as NCCL does, and the settings that an NCCL log reports.

Source of the rules: NVIDIA/nccl, src/misc/param.cc (setEnvFile), read 2026-06.
"""

from probes.base.patterns import pattern
from probes.base.record import Record

_LONGEST = 1023
_LOGGED = pattern(r"NCCL INFO (NCCL_[A-Z0-9_]{1,60}) set(?: by environment)? to (\S.{0,300}?)\.?\s*$")
"""Report of a variable: `node17:12:12 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.`"""
_BY_PLUGIN = pattern(r"Setting (NCCL_[A-Z0-9_]{1,60}) to ")
"""Report of a variable that a plugin sets: `NET/OFI Setting NCCL_PROTO to "simple"`.

NCCL then reports this variable as if it came from the environment.
"""
_NETWORK = pattern(r"NCCL INFO Using network ([A-Za-z][\w .-]{0,60}?)\s*(?:[^\w\s.-]|$)")
"""Report of the chosen network: `node17:12:12 [0] NCCL INFO Using network IB`."""
_MOST_LINES = 4096


class Assignment(Record, kw_only=True):
    """A line that sets a variable.

    Blanks and quotes are part of the name or the value, as in NCCL.
    """

    line: int
    name: str
    value: str


class Ignored(Record, kw_only=True):
    """A line without effect on NCCL."""

    line: int
    text: str


def parse_configuration(text: str) -> tuple[tuple[Assignment, ...], tuple[Ignored, ...]]:
    """Return the assignments of a file in order, and the lines that have no effect.

    Lines without effect have no `=` and are neither empty nor a comment. If a name is assigned twice, the
    first assignment is used. Only a `#` in the first column begins a comment.
    """
    assignments: list[Assignment] = []
    ignored: list[Ignored] = []
    for number, line in enumerate(text.split("\n")[:_MOST_LINES], 1):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            assignments.append(Assignment(line=number, name=name[:_LONGEST], value=value[:_LONGEST]))
        elif line.strip() and not line.startswith("#"):
            ignored.append(Ignored(line=number, text=line[:120]))
    return tuple(assignments), tuple(ignored)


def parse_logged(text: str) -> tuple[Assignment, ...]:
    """Return the variables that ranks report, without repetitions and without variables that a plugin set."""
    by_plugin = {match[1] for match in _BY_PLUGIN.finditer(text)}
    assignments: dict[tuple[str, str], Assignment] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _LOGGED.search(line[-500:]) if " set " in line else None
        if match is not None and match[1] not in by_plugin:
            assignment = Assignment(line=number, name=match[1], value=match[2])
            assignments.setdefault((match[1], match[2]), assignment)
    return tuple(assignments.values())


def parse_network(text: str) -> str | None:
    """Return the network that all ranks report; None if they report several networks, or none."""
    lines = (line for line in text.split("\n") if "Using network " in line)
    networks = {match[1] for line in lines if (match := _NETWORK.search(line[-500:])) is not None}
    return networks.pop() if len(networks) == 1 else None
