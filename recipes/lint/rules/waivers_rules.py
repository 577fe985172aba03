"""Waivers of rules that do not exist."""

from __future__ import annotations

import difflib
import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.rule_table import Findings, load_rules, make_finding, per_document


@per_document()
def unknown(document: Document, context: Context) -> Findings:
    """Check for misspelt waivers: their findings are still reported."""
    named = {name for names in document.waived.values() for name in names} - {"all"}
    for name in sorted(named - set(load_rules())):
        near = difflib.get_close_matches(name, load_rules(), n=1)
        yield make_finding(
            "waiver-unknown",
            document,
            Place(line=_line(document, name)),
            f"no rule is called {name}" + (f"; did you mean {near[0]}?" if near else ""),
            fix=f"Write {near[0]}." if near else "Remove the comment.",
        )


def _line(document: Document, name: str) -> int:
    pattern = re.compile(rf"rigtune:\s*ignore\S*\b{re.escape(name)}\b")
    return next((number for number, line in enumerate(document.lines, 1) if pattern.search(line)), 1)
