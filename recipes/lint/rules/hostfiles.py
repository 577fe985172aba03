"""Lists of hosts, compared with the commands that read them."""

from __future__ import annotations

import re

from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Entry, lines_of
from recipes.lint.rule_table import Documents, Findings, make_finding
from recipes.lint.views import commands, number, option, resolved


def _named(document: Document, text: str | None) -> bool:
    """Return whether an option names this list."""
    return text is not None and text.strip("\"'").rpartition("/")[2] == document.name.rpartition("/")[2]


def _hosts(document: Document) -> list[tuple[Entry, int | None]]:
    slots = {
        item.path.partition(".")[0]: item.value for item in document.entries if item.path.endswith(".slots")
    }
    hosts = []
    for item in document.entries:
        if item.path.endswith(".name"):
            count = slots.get(item.path.partition(".")[0])
            hosts.append((item, count if isinstance(count, int) else None))
    return hosts


def lists(documents: Documents, context: Context) -> Findings:
    """Check for too few slots, and for lines that DeepSpeed refuses."""
    for document in documents:
        if document.kind != "hostfile":
            continue
        for other in documents:
            for command in commands(other, "deepspeed"):
                if _named(document, option(command, "hostfile")):
                    yield from _list_for_deepspeed(document, other, command)
            for command in commands(other, "mpirun"):
                if _named(document, option(command, "hostfile", "machinefile", "f")):
                    yield from _list_for_mpi(document, other, command)


def _list_for_deepspeed(document: Document, other: Document, command: Command) -> Findings:
    earlier: set[str] = set()
    hosts = _hosts(document)
    lines = lines_of(document.text)
    for item, _ in hosts:
        name = str(item.value)
        if name in earlier:
            message = f"{name} is listed twice, so DeepSpeed ends with an error"
            yield make_finding(
                "hostfile-refused",
                document,
                item.place,
                message,
                fix="Write each host once, with all its slots.",
            )
        elif not re.match(r"\S+\s+slots=\d+", lines[item.place.line - 1].strip()):
            message = f"{name} has no slots, so DeepSpeed ends with: Hostfile contains a bad entry"
            yield make_finding(
                "hostfile-refused", document, item.place, message, fix=f"Write {name} slots=8, with its GPUs."
            )
        earlier.add(name)
    wanted = number(resolved(other, option(command, "num-nodes")))
    if wanted is not None and wanted > len(hosts) > 0:
        message = f"{wanted} nodes are requested, and {document.name} names {len(hosts)}"
        yield make_finding(
            "hostfile-few", other, command.place, message, fix="Name more hosts, or request fewer."
        )


def _list_for_mpi(document: Document, other: Document, command: Command) -> Findings:
    """Compare the ranks with the slots of a list.

    Open MPI counts the cores of a host without slots, so only a list with all slots is judged.
    """
    slots = [count for _, count in _hosts(document)]
    stated = [count for count in slots if count is not None]
    ranks = number(resolved(other, option(command, "np", "n")))
    crowded = (
        "oversubscribe" in command.options or "OVERSUBSCRIBE" in (option(command, "map-by") or "").upper()
    )
    if ranks is not None and stated and len(stated) == len(slots) and ranks > sum(stated) and not crowded:
        yield make_finding(
            "hostfile-few",
            other,
            command.place,
            f"{ranks} ranks, and {document.name} has {sum(stated)} slots",
            fix="Raise the slots, or start fewer ranks.",
        )
