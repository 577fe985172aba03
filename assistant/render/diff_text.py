"""What `rigtune diff` prints for people."""

from __future__ import annotations

from assistant.render.lines import bold, clean, filled
from probes.compare.differences import Comparison, Difference, FindingChange

_MOST_LINES = 12
"""Of what only one side knows, unless --verbose; two pastes of different kinds share little."""


def render_comparison(comparison: Comparison, *, colour: bool = False, verbose: bool = False) -> str:
    """The differences in sentences, hardware first."""
    names = comparison.machines
    kind = (
        "one machine at different moments"
        if comparison.is_one_machine
        else "different machines, by their names"
    )
    lines = [bold(clean(" | ".join(names)), colour=colour), *filled(f"({kind})")]
    if comparison.is_equal:
        return "\n".join([*lines, "", "no difference"]) + "\n"
    told = [row for row in comparison.differences if row.change not in ("lost", "learnt")]
    known_once = [row for row in comparison.differences if row.change in ("lost", "learnt")]
    for title, sentences in (
        ("changed", [row.sentence for row in told]),
        ("findings", [_finding(row) for row in comparison.findings]),
        ("odd ones", [f"{row.machine}: {row.sentence}" for row in comparison.odd]),
        ("known on one side only", _some(known_once, verbose)),
    ):
        if sentences:
            lines += ["", bold(title, colour=colour)]
            for sentence in sentences:
                lines += filled(sentence, label="  ", indent=2)
    return "\n".join(lines) + "\n"


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
