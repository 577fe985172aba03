"""Report the differences between two machines, or between two moments of one machine."""

from assistant.pages.blocks import Page, Row, section
from probes.compare.differences import Comparison, FindingChange

_MOST_LINES = 12
"""Maximum number of lines, without --verbose, about facts that are known on one side only."""


def diff_page(comparison: Comparison, *, verbose: bool = False) -> Page:
    """Return the differences in sentences, hardware first."""
    kinds = {
        True: "one machine at different moments",
        False: "different machines by their names; captures may replace the same name in different ways",
    }
    head = section(" | ".join(comparison.machines), [f"({kinds[comparison.is_one_machine]})"])
    if comparison.is_equal:
        return head, section("", ["no difference"])
    changed = [row for row in comparison.differences if row.change not in ("lost", "learnt")]
    known_once = [row.sentence for row in comparison.differences if row.change in ("lost", "learnt")]
    if len(known_once) > _MOST_LINES and not verbose:
        known_once[_MOST_LINES:] = [f"and {len(known_once) - _MOST_LINES} more; -v lists them"]
    parts = (
        ("changed", [row.sentence for row in changed]),
        ("findings", [_finding(row) for row in comparison.findings]),
        ("odd ones", [f"{row.machine}: {row.sentence}" for row in comparison.odd]),
        ("known on one side only", known_once),
    )
    return head, *(section(title, [Row(f"  {line}") for line in lines]) for title, lines in parts if lines)


def _finding(row: FindingChange) -> str:
    before, after = row.before.value if row.before else "", row.after.value if row.after else ""
    change = f"new {after}" if not before else f"no more {before}" if not after else f"{before} -> {after}"
    return f"{change}  {row.subject}: {row.summary} ({row.check_id})"
