"""Report how two machines, or one machine at two moments, differ."""

from __future__ import annotations

from assistant.pages.blocks import Page, Row, section
from probes.compare.differences import Comparison, Difference, FindingChange

_MOST_LINES = 12
"""Number of lines for facts of one side only, unless --verbose; different pastes share little."""


def diff_page(comparison: Comparison, *, verbose: bool = False) -> Page:
    """Return the differences in sentences, hardware first."""
    kind = (
        "one machine at different moments"
        if comparison.is_one_machine
        else "different machines, by their names"
    )
    head = section(" | ".join(comparison.machines), [f"({kind})"])
    if comparison.is_equal:
        return head, section("", ["no difference"])
    changed = [row for row in comparison.differences if row.change not in ("lost", "learnt")]
    known_once = [row for row in comparison.differences if row.change in ("lost", "learnt")]
    parts = (
        ("changed", [row.sentence for row in changed]),
        ("findings", [_finding(row) for row in comparison.findings]),
        ("odd ones", [f"{row.machine}: {row.sentence}" for row in comparison.odd]),
        ("known on one side only", _some(known_once, verbose)),
    )
    return head, *(section(title, [Row(f"  {line}") for line in lines]) for title, lines in parts if lines)


def _some(rows: list[Difference], verbose: bool) -> list[str]:
    sentences = [row.sentence for row in rows]
    if verbose or len(sentences) <= _MOST_LINES:
        return sentences
    return [*sentences[:_MOST_LINES], f"and {len(sentences) - _MOST_LINES} more; -v lists them"]


def _finding(row: FindingChange) -> str:
    where = f"{row.subject}: {row.summary} ({row.check_id})"
    if row.before is None and row.after is not None:
        return f"new {row.after.value}  {where}"
    if row.after is None and row.before is not None:
        return f"no more {row.before.value}  {where}"
    return f"{row.before.value if row.before else ''} -> {row.after.value if row.after else ''}  {where}"
