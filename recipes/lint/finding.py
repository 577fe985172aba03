"""What a rule finds wrong in a launch file."""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from recipes.lint.document import Place

SCHEMA_VERSION = 1
Severity = Literal["error", "warning", "note"]
"""`error`: the job fails, hangs or computes something else. `warning`: it is slow or breaks elsewhere.
`note`: news.
"""


class Edit(Record, kw_only=True):
    """A safe change: replace what stands at `place` by `text`."""

    place: Place
    text: str


class LintFinding(Record, kw_only=True):
    """One mistake."""

    rule_id: str
    """A row of `recipes/data/lint_rules.toml`: `slurm-torchrun-tasks`."""
    severity: Severity
    document: str
    place: Place
    message: str
    """What is wrong here, with the names and values of the file."""
    fix: str = ""
    """What to write instead, in words."""
    edits: tuple[Edit, ...] = ()
    """Where the fix is safe."""


class LintReport(Record, kw_only=True):
    """What `rigtune lint --format json` prints."""

    schema_version: int = SCHEMA_VERSION
    findings: tuple[LintFinding, ...] = ()
    waived: int = 0
    """Findings that a comment of the file waives."""
    notes: tuple[str, ...] = ()
    """What could not be judged, and why."""
    documents: tuple[str, ...] = ()
