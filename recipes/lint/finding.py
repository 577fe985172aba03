"""Mistakes that rules detect in a launch file."""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from recipes.lint.document import Place

SCHEMA_VERSION = 1
Severity = Literal["error", "warning", "note"]
"""`error`: the job fails, hangs or computes something else.

`warning`: the job is slow or breaks on another machine. `note`: worth knowing.
"""


class Edit(Record, kw_only=True):
    """A safe change: replace the text at `place` by `text`."""

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
    """The correction as changes of the text, if it is safe."""


class LintReport(Record, kw_only=True):
    """The result of `rigtune lint --format json`."""

    schema_version: int = SCHEMA_VERSION
    findings: tuple[LintFinding, ...] = ()
    waived: int = 0
    """Number of findings that a comment of the file waives."""
    notes: tuple[str, ...] = ()
    """Files and rules that could not be judged, with the reason."""
    documents: tuple[str, ...] = ()
