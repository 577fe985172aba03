"""Judge texts by the rules of lint, so that a broken rule fails its own tests only."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable

from recipes.lint.context import Context
from recipes.lint.document import Document, DocumentKind
from recipes.lint.finding import LintFinding
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint, load_rules, rule_rows


def read(name: str, text: str, kind: DocumentKind | None = None) -> Document:
    """Return a text as a launch file."""
    document = read_document(name, text, kind)
    assert document is not None, f"{name} is of no known kind"
    return document


def judge(
    *documents: Document, context: Context | None = None, only: Iterable[str] | None = None
) -> tuple[LintFinding, ...]:
    """Return the findings in files that belong together.

    With `only`, an error of these rules is raised. Without `only`, a rule that crashes or cannot be loaded is
    skipped: `tests/lint/test_table.py` runs every function on every text, and fails for that function alone.
    """
    return lint(documents, context or Context(), [] if only is None else None, only=only)


def rule_ids(
    name: str, text: str, *, context: Context | None = None, only: Iterable[str] | None = None
) -> list[str]:
    """Return the rule ids of the findings in one file."""
    return [finding.rule_id for finding in judge(read(name, text), context=context, only=only)]


@functools.lru_cache(maxsize=1)
def usable_rules() -> tuple[str, ...]:
    """Return the rules that judge a plain script without an error; other tests fail for the other rules."""
    usable = []
    for rule_id in load_rules():
        with contextlib.suppress(Exception):
            lint((read("a.sh", "export A=1\n"),), Context(), only=[rule_id])
            usable.append(rule_id)
    return tuple(usable)


def rules_by_function() -> dict[str, list[str]]:
    """Return the ids of the rules that each function detects; the names are `module.function`."""
    functions: dict[str, list[str]] = {}
    for row in rule_rows():
        for name in (f"{row.get('module')}.{row.get('function')}", *row.get("also", ())):
            functions.setdefault(name, []).append(str(row.get("id")))
    return functions
