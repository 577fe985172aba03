"""Lists of hosts beside the commands that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Entry, lines_of
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import make_finding
from recipes.lint.views import commands, number, option, resolved

Documents = tuple[Document, ...]


def _named(document: Document, text: str | None) -> bool:
    """Whether an option names this list."""
    return text is not None and text.strip("\"'").rpartition("/")[2] == document.name.rpartition("/")[2]


def _hosts(document: Document) -> list[tuple[Entry, int | None]]:
    slots = {
        item.path.partition(".")[0]: item.value for item in document.entries if item.path.endswith(".slots")
    }
    found_hosts = []
    for item in document.entries:
        if item.path.endswith(".name"):
            count = slots.get(item.path.partition(".")[0])
            found_hosts.append((item, count if isinstance(count, int) else None))
    return found_hosts


def lists(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Slots that are too few, and lines that DeepSpeed refuses."""
    del context
    for document in documents:
        if document.kind != "hostfile":
            continue
        for other in documents:
            for command in commands(other, "deepspeed"):
                if _named(document, option(command, "hostfile")):
                    yield from _of_deepspeed(document, other, command)
            for command in commands(other, "mpirun"):
                if _named(document, option(command, "hostfile", "machinefile", "f")):
                    yield from _of_mpi(document, other, command)


def _of_deepspeed(document: Document, other: Document, command: Command) -> Iterator[LintFinding]:
    seen: set[str] = set()
    hosts = _hosts(document)
    lines = lines_of(document.text)
    for item, _ in hosts:
        name = str(item.value)
        if name in seen:
            message = f"{name} stands twice, and DeepSpeed ends"
            yield make_finding(
                "hostfile-refused",
                document,
                item.place,
                message,
                fix="Write each host once, with all its slots.",
            )
        elif not re.match(r"\S+\s+slots=\d+", lines[item.place.line - 1].strip()):
            message = f"{name} is told no slots, and DeepSpeed ends: Hostfile contains a bad entry"
            yield make_finding(
                "hostfile-refused", document, item.place, message, fix=f"Write {name} slots=8, with its GPUs."
            )
        seen.add(name)
    wanted = number(resolved(other, option(command, "num-nodes")))
    if wanted is not None and wanted > len(hosts) > 0:
        message = f"{wanted} nodes are asked for, and {document.name} names {len(hosts)}"
        yield make_finding(
            "hostfile-few", other, command.place, message, fix="Name more hosts, or ask for fewer."
        )


def _of_mpi(document: Document, other: Document, command: Command) -> Iterator[LintFinding]:
    """Open MPI counts the cores of a host that has no slots, so that only a list with all of them says
    enough.
    """
    slots = [count for _, count in _hosts(document)]
    told = [count for count in slots if count is not None]
    ranks = number(resolved(other, option(command, "np", "n")))
    crowded = (
        "oversubscribe" in command.options or "OVERSUBSCRIBE" in (option(command, "map-by") or "").upper()
    )
    if ranks is not None and told and len(told) == len(slots) and ranks > sum(told) and not crowded:
        message = f"{ranks} ranks, and {document.name} has {sum(told)} slots"
        yield make_finding(
            "hostfile-few", other, command.place, message, fix="Raise the slots, or start fewer ranks."
        )
