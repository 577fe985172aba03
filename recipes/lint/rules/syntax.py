"""Files with errors of syntax."""

from __future__ import annotations

from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.rule_table import Findings, make_finding, per_document


@per_document()
def files(document: Document, context: Context) -> Findings:
    """Report each error of syntax at its start."""
    for fault in document.faults:
        yield make_finding(
            "syntax",
            document,
            fault.place,
            fault.reason,
            fix="Fix this line first; the lines after it were not read.",
        )
