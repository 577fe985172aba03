"""What could be measured, for the eye."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from assistant.render.tables import plain_table, text_of, width_of_terminal
from assistant.usecases.bench.bench_list import BenchEntry

_WIDE = 120


def render_entries(entries: Sequence[BenchEntry], *, colour: bool = False, width: int | None = None) -> str:
    """One line per benchmark: suite, rough seconds in quick and full, what it occupies, and whether it
    applies here.
    """
    columns = width_of_terminal() if width is None else width
    is_wide = columns >= _WIDE
    heads = ("benchmark", "what", "suites", "quick", "full", "occupies", "here")
    table = plain_table(*(heads if is_wide else ("benchmark", "what", "quick", "full", "here")))
    for entry in entries:
        quick = f"{entry.cost_s:.0f} s" if "quick" in entry.suites or not entry.suites else "-"
        full = f"{entry.full_cost_s:.0f} s" if "full" in entry.suites or not entry.suites else "-"
        here = Text("yes", style="green") if entry.applies else Text(entry.why_not, style="dim")
        suites = ", ".join(entry.suites) or "on request"
        what = entry.title if is_wide else f"{entry.title}; occupies {entry.occupies}"
        table.add_row(
            entry.id,
            what,
            *([suites] if is_wide else []),
            quick,
            full,
            *([entry.occupies] if is_wide else []),
            here,
        )
    quick_s = sum(entry.cost_s for entry in entries if entry.applies and "quick" in entry.suites)
    full_s = sum(entry.full_cost_s for entry in entries if entry.applies and "full" in entry.suites)
    total = f"here about {quick_s:.0f} s for the quick suite, {full_s:.0f} s for the full one, starts of torch included"
    return text_of([table, "", total], colour=colour, width=columns)
