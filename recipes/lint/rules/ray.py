"""Ray clusters that a batch script starts."""

from __future__ import annotations

import re

from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.readers.grammars import SHELLS
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    commands,
    directive,
    enclosing,
    nodes_of,
    number,
    option,
    resolved,
    tasks_per_node,
    words,
)

_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+)(?::\d+)?")


@per_document()
def clusters(document: Document, context: Context) -> Findings:
    """Check the Slurm steps that start Ray's daemons."""
    for command in commands(document, "ray"):
        step = enclosing(document, command, "srun")
        if step is None or not re.match(r"start\b", words(command)):
            continue
        is_head = "head" in command.options
        if "block" not in command.options and SHELLS.isdisjoint(command.inside):
            yield make_finding(
                "ray-without-block",
                document,
                command.place,
                "ray start returns at once, so the step ends and Slurm ends the daemons with it",
                fix="Give --block, and start the step in the background with &.",
            )
        if is_head and (_tasks(document, step) or 1) > 1:
            yield make_finding(
                "ray-many-heads",
                document,
                command.place,
                f"srun starts {_tasks(document, step)} tasks, and each becomes the head of its own cluster",
                fix="Start the head by srun --nodes=1 --ntasks=1 -w FIRST_NODE.",
            )
        if not is_head and _LOOPBACK.fullmatch(command.options.get("address", "")):
            yield make_finding(
                "ray-loopback",
                document,
                command.place,
                f"--address={command.options['address']} is each node's own address, so workers do not "
                "find the head",
                fix="Give the address of the first node.",
            )


def _tasks(document: Document, step: Command) -> int | None:
    """Return the number of tasks of a step, if numbers state it."""
    tasks, nodes, each = (
        number(resolved(document, option(step, name))) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if tasks is not None:
        return tasks
    over = nodes or nodes_of(document)
    count = each or tasks_per_node(document)
    if count is None and directive(document, "ntasks") is None:
        count = 1
    return over * count if over and count else None
