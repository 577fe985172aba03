"""Programs that configure torchrun with variables: llamafactory-cli and swift.

Source: hiyouga/LLaMA-Factory, src/llamafactory/cli.py since 0.9.1; modelscope/ms-swift, swift/cli/main.py.
"""

from __future__ import annotations

from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.reach import given_to
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import commands, number


@per_document()
def node_ranks(document: Document, context: Context) -> Findings:
    """Check that the node's number is in the variable that the program reads."""
    for command in commands(document, "llamafactory-cli", "swift", "megatron"):
        given = given_to(document, command)
        nodes = given.get("NNODES")
        several = nodes is not None and nodes.is_literal and (number(nodes.value) or 0) > 1
        if several and "RANK" in given and "NODE_RANK" not in given:
            yield make_finding(
                "frontend-node-rank",
                document,
                given["RANK"].place,
                f"{command.program} reads NODE_RANK, and without it every node is node 0; it does not "
                "read RANK",
                fix="Write NODE_RANK.",
            )
