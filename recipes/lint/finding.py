"""Mistakes that rules detect in a launch file, and waivers of rules in its comments."""

from collections.abc import Iterable
from typing import Literal

from probes.base.grouping import runs_of
from probes.base.record import Record
from recipes.lint.document import Document, Place
from recipes.lint.understanding import Understood

SCHEMA_VERSION = 1
Severity = Literal["error", "warning", "note"]
"""`error`: the job fails, hangs or computes something that was not intended.

`warning`: the job is slow, or fails on another machine. `note`: a fact worth knowing.
"""


class Edit(Record, kw_only=True):
    """A change: replace the text at `place` by `text`."""

    place: Place
    text: str


class LintFinding(Record, kw_only=True):
    """One mistake."""

    rule_id: str
    """Id of a row of `recipes/data/lint_rules.toml`, such as `slurm-torchrun-tasks`."""
    severity: Severity
    document: str
    place: Place
    message: str
    """The mistake with the names and values of the file."""
    fix: str = ""
    """The correction in words."""
    edits: tuple[Edit, ...] = ()
    """The correction as changes of the text; empty if no change is safe."""
    unsafe_edits: tuple[Edit, ...] = ()
    """The correction as changes after which the job may behave differently; a person must agree to them."""


class LintReport(Record, kw_only=True):
    """The result of `rigtune lint --format json`."""

    schema_version: int = SCHEMA_VERSION
    findings: tuple[LintFinding, ...] = ()
    waived: int = 0
    """Number of findings that a comment of the file waives."""
    notes: tuple[str, ...] = ()
    """Files or parts that were not judged, rules that failed, and waivers without effect; with reasons."""
    documents: tuple[str, ...] = ()
    left_out: int = 0
    """Number of findings left out because the caller did not select their rule, or ignores the rule."""
    understood: tuple[Understood, ...] = ()


def without_waived(
    findings: Iterable[LintFinding], documents: tuple[Document, ...]
) -> tuple[tuple[LintFinding, ...], int]:
    """Return the findings that no comment waives, and the number of waived findings."""
    by_name = {document.name: document for document in documents}
    kept = []
    waived = 0
    for finding in findings:
        document = by_name.get(finding.document)
        rules = (
            ()
            if document is None
            else document.waived.get(finding.place.line, ()) + document.waived.get(0, ())
        )
        if finding.rule_id in rules or "all" in rules:
            waived += 1
        else:
            kept.append(finding)
    return tuple(kept), waived


def idle_waivers(findings: Iterable[LintFinding], documents: tuple[Document, ...]) -> tuple[str, ...]:
    """Return a message for each waiver that waives no finding.

    `findings` are all findings, waived or not.
    """
    found_on_lines = {(finding.document, finding.place.line, finding.rule_id) for finding in findings}
    names = {(document, rule) for document, _, rule in found_on_lines}
    lines = {(document, line) for document, line, _ in found_on_lines}
    idle: list[str] = []
    for document in documents:
        for rule in sorted({rule for rules in document.waived.values() for rule in rules}):
            for first, last in _runs(document, rule):
                if rule == "all":
                    used = any((document.name, line) in lines for line in range(first, last + 1)) or (
                        first == 0 and bool(lines)
                    )
                else:
                    used = any(
                        (document.name, line, rule) in found_on_lines for line in range(first, last + 1)
                    )
                    used = used or (first == 0 and (document.name, rule) in names)
                if not used:
                    idle.append(
                        f"{document.name}, line {max(first, 1)}: the waiver of {rule} waives no finding"
                    )
    return tuple(idle)


def _runs(document: Document, rule: str) -> list[tuple[int, int]]:
    """Return the first and last line of each stretch in which a comment waives the rule.

    A comment for the whole file counts as line 0.
    """
    lines = [line for line, rules in document.waived.items() if rule in rules]
    return [(0, 0)] * (0 in lines) + runs_of(line for line in lines if line > 0)
