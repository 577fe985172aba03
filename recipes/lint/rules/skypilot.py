"""SkyPilot tasks: their resources, compared with the ranks of their commands."""

from __future__ import annotations

import re

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import TRAINERS, commands, entry_value, number, option, ranks_here, resolved

_ACCELERATORS = re.compile(r"(?!tpu)([A-Za-z][\w.-]*)(?::(\d+))?")


@per_document()
def counts(document: Document, context: Context) -> Findings:
    """Compare ranks with the GPUs of a node, and machines with nodes."""
    gpus, nodes = _gpus(document), _nodes(document)
    if gpus is None:
        return
    for command in commands(document, *TRAINERS):
        if command.is_conditional:
            continue
        wanted = ranks_here(document, command)
        if wanted is not None and wanted > gpus:
            yield make_finding(
                "skypilot-gpus-fewer",
                document,
                command.place,
                f"{wanted} ranks on each node, and a node has {plural(gpus, 'GPU')}",
                fix="Write --nproc-per-node=$SKYPILOT_NUM_GPUS_PER_NODE.",
            )
        machines = number(resolved(document, option(command, "nnodes", "num-machines")))
        if machines is not None and nodes is not None and machines not in (1, nodes):
            yield make_finding(
                "skypilot-nodes-differ",
                document,
                command.place,
                f"the launcher expects {machines} machines, and num_nodes is {nodes}",
                fix="Write --nnodes=$SKYPILOT_NUM_NODES.",
            )


def _gpus(document: Document) -> int | None:
    """Return the GPUs of each node of a task; None if this is no task or the number is open."""
    if document.kind != "kubernetes" or any(item.path == "kind" for item in document.entries):
        return None
    match = _ACCELERATORS.fullmatch(str(entry_value(document, "resources.accelerators") or ""))
    return None if match is None else int(match[2] or 1)


def _nodes(document: Document) -> int | None:
    nodes = entry_value(document, "num_nodes")
    return 1 if nodes is None else number(str(nodes))
