"""The rules: rows of `recipes/data/lint_rules.toml`, each with the function that finds the mistake."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.embedded import embedded
from recipes.lint.finding import Edit, LintFinding, Severity
from recipes.lint.parting import parted

_OF_FILES = frozenset(
    {"kubernetes_rules", "pods_rules", "pod_counts", "containers", "container_gpus", "syntax"}
)
"""Modules whose rules look at a file with all its containers. The others judge each container for itself."""
Check = Callable[[tuple[Document, ...], Context], Iterator[LintFinding]]


class LintRule(StrictRecord, kw_only=True):
    """One row."""

    id: str
    severity: Severity
    title: str
    """The mistake in a few words."""
    reason: str
    """What happens because of it."""
    source: str
    """Who says so."""
    since: str = ""
    """The first version that it holds for, as `NCCL 2.24`."""
    until: str = ""
    """The first version that it no longer holds for."""
    module: str
    """Below `recipes.lint.rules`."""
    function: str


@functools.lru_cache(maxsize=1)
def load_rules() -> dict[str, LintRule]:
    """All rules by id, in the order of the file."""
    return {row.id: row for row in load_rows("recipes", "rules", LintRule, file="lint_rules")}


def found(
    rule_id: str,
    document: Document,
    place: Place,
    message: str,
    *,
    fix: str = "",
    edits: tuple[Edit, ...] = (),
    severity: Severity | None = None,
) -> LintFinding:
    """A finding of a rule, with the severity of its row unless what is known of the machine makes it
    another.
    """
    return LintFinding(
        rule_id=rule_id,
        severity=severity or load_rules()[rule_id].severity,
        document=document.name,
        place=place,
        message=message,
        fix=fix,
        edits=edits,
    )


@functools.lru_cache(maxsize=1)
def _checks() -> tuple[tuple[Check, bool], ...]:
    """With each whether it looks at whole files."""
    named = dict.fromkeys((row.module, row.function) for row in load_rules().values())
    return tuple(
        (getattr(importlib.import_module(f"recipes.lint.rules.{module}"), function), module in _OF_FILES)
        for module, function in named
    )


def _run(
    check: Check, documents: tuple[Document, ...], context: Context, broken: list[str] | None
) -> Iterator[LintFinding]:
    try:
        yield from check(documents, context)
    except Exception as error:
        if broken is None:
            raise
        broken.append(
            f"the rule {check.__name__} has a bug and was not judged to its end: {type(error).__name__}: {error}"
        )


def _found(
    documents: tuple[Document, ...], context: Context, broken: list[str] | None
) -> Iterator[LintFinding]:
    parts = tuple(part for document in documents for part in parted(document))
    for check, is_of_files in _checks():
        yield from _run(check, documents if is_of_files else parts, context, broken)


def lint(
    documents: tuple[Document, ...], context: Context, broken: list[str] | None = None
) -> tuple[LintFinding, ...]:
    """What all rules find in files that belong together, in the order of the files and their lines. What a
    script writes out in here-documents is judged alone.

    Findings that a comment waives are among them: `Document.waived` says which. A rule that crashes is told
    in `broken`, where that is given, and the others go on.
    """
    order = {document.name: index for index, document in enumerate(documents)}
    groups = (documents, *((inner,) for document in documents for inner in embedded(document)))
    findings = {
        (finding.rule_id, finding.document, finding.place.line, finding.message): finding
        for group in groups
        for finding in _found(group, context, broken)
    }
    return tuple(
        sorted(
            findings.values(),
            key=lambda item: (order.get(item.document, 0), item.place.line, item.place.column, item.rule_id),
        )
    )
