"""NCCL's configuration files, read exactly as NCCL reads them, and the variables that an NCCL log says it
found.

Source of the rules: NVIDIA/nccl, src/misc/param.cc (setEnvFile), read 2026-06.
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.base.record import Record

_LONGEST = 1023
_LOGGED = pattern(r"NCCL INFO (NCCL_[A-Z0-9_]{1,60}) set(?: by environment)? to (\S.{0,300}?)\.?\s*$")
"""`node17:12:12 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.`"""
_BY_PLUGIN = pattern(r"Setting (NCCL_[A-Z0-9_]{1,60}) to ")
"""`NET/OFI Setting NCCL_PROTO to "simple"`: the plugin's own choice, which NCCL then reports as the
environment's.
"""
_MOST_LINES = 4096


class Assignment(Record, kw_only=True):
    """A line that sets a variable. Blanks and quotes are part of the name or the value, as NCCL takes
    them.
    """

    line: int
    name: str
    value: str


class Ignored(Record, kw_only=True):
    """A line that NCCL reads without effect."""

    line: int
    text: str


def parse_configuration(text: str) -> tuple[tuple[Assignment, ...], tuple[Ignored, ...]]:
    """The assignments of a file in order, and the lines without `=` that are neither empty nor a comment.

    Of two assignments of one name the first counts. Only a `#` in the first column makes a comment.
    """
    found: list[Assignment] = []
    ignored: list[Ignored] = []
    for number, line in enumerate(text.split("\n")[:_MOST_LINES], 1):
        if line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if equals:
            found.append(Assignment(line=number, name=name[:_LONGEST], value=value[:_LONGEST]))
        elif line.strip():
            ignored.append(Ignored(line=number, text=line[:120]))
    return tuple(found), tuple(ignored)


def parse_logged(text: str) -> tuple[Assignment, ...]:
    """The variables that ranks report, each name and value once; not those that a plugin sets itself."""
    by_plugin = {match[1] for match in _BY_PLUGIN.finditer(text)}
    found: dict[tuple[str, str], Assignment] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if " set " not in line or (match := _LOGGED.search(line[-500:])) is None:
            continue
        if match[1] not in by_plugin:
            found.setdefault((match[1], match[2]), Assignment(line=number, name=match[1], value=match[2]))
    return tuple(found.values())
