"""Tasks of SkyPilot: what they ask for, against what their commands count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import make_finding
from recipes.lint.views import TRAINERS, commands, entry_value, number, option, ranks_here, resolved

Documents = tuple[Document, ...]

_ACCELERATORS = re.compile(r"(?!tpu)([A-Za-z][\w.-]*)(?::(\d+))?")


def counts(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Ranks against GPUs of a node, and nodes."""
    del context
    for document in documents:
        gpus, nodes = _gpus(document), _nodes(document)
        if gpus is None:
            continue
        for command in commands(document, *TRAINERS):
            if command.is_conditional:
                continue
            wanted = ranks_here(document, command)
            if wanted is not None and wanted > gpus:
                yield make_finding(
                    "skypilot-gpus-fewer",
                    document,
                    command.place,
                    f"{wanted} ranks on each node, and a node has {gpus} GPU{'s' * (gpus != 1)}",
                    fix="Write --nproc-per-node=$SKYPILOT_NUM_GPUS_PER_NODE.",
                )
            told = number(resolved(document, option(command, "nnodes", "num-machines")))
            if told is not None and nodes is not None and told not in (1, nodes):
                yield make_finding(
                    "skypilot-nodes-differ",
                    document,
                    command.place,
                    f"the launcher counts {told} machines, and num_nodes is {nodes}",
                    fix="Write --nnodes=$SKYPILOT_NUM_NODES.",
                )


def _gpus(document: Document) -> int | None:
    """GPUs of each node of a task; None where this is no task, or the number is open."""
    if document.kind != "kubernetes" or any(item.path == "kind" for item in document.entries):
        return None
    told = _ACCELERATORS.fullmatch(str(entry_value(document, "resources.accelerators") or ""))
    return None if told is None else int(told[2] or 1)


def _nodes(document: Document) -> int | None:
    told = entry_value(document, "num_nodes")
    return 1 if told is None else number(str(told))
