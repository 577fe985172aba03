"""Waivers of rules that do not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import load_rules, make_finding

Documents = tuple[Document, ...]


def unknown(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Check for misspelt waivers: their findings are still reported."""
    for document in documents:
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
