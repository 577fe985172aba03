"""Files with errors of syntax."""

from __future__ import annotations

from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import make_finding


def files(documents: tuple[Document, ...], context: Context) -> Iterator[LintFinding]:
    """Report each error of syntax at its start."""
    for document in documents:
        for fault in document.faults:
            yield make_finding(
                "syntax",
                document,
                fault.place,
                fault.reason,
                fix="Fix this line first; the lines after it were not read.",
            )
