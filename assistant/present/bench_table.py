"""The table of results: sections, one line per case, each beside what it compares to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from assistant.present.bench_words import OTHER, SECTIONS, case, name_of, place_of, section_of
from assistant.present.results import Result
from assistant.present.text import BAD, CAUTION, DIM, GOOD, STRONG, clean, frameless
from probes.base.units import quantity
from probes.compare.measurement_judgement import ComparedTo, Comparison
from probes.judging.findings import Status

WIDE = 110
"""Columns from which the percentiles and each comparison have a column of their own."""

_LONG = 16
"""Characters of a case that need not be repeated for the next figure."""
_ROUND = 10
"""Percent from which a spread needs no decimal."""
_GLYPHS = {Status.FAIL: ("✗", BAD), Status.WARN: ("!", CAUTION), Status.PASS: ("✓", GOOD)}
_STYLES = {Status.FAIL: BAD, Status.WARN: CAUTION}
_KINDS: tuple[tuple[ComparedTo, str], ...] = (
    ("reference", "reference"),
    ("pinned", "pinned"),
    ("previous", "last run"),
    ("peers", "peers"),
)


def results_table(rows: Sequence[Result], *, width: int) -> Table:
    """The rows by section. From `WIDE` columns on, the comparisons stand in columns, else below each
    other.
    """
    is_wide = width >= WIDE
    kinds = [kind for kind in _KINDS if any(row.beside(kind[0]) for row in rows)]
    names = [name for _, name in kinds] if is_wide else ["compared"] * bool(kinds)
    has_odd = not kinds and any(row.slowest for row in rows)
    table = frameless(
        "", "", "on", "median", "p5 .. p95" if is_wide else "±", *names, *(["slowest"] if has_odd else [])
    )
    table.columns[0].width = 1
    table.columns[1].min_width = max(len(name) for name, _ in SECTIONS)
    for column in table.columns[3:5]:
        column.no_wrap = True
        column.justify = "right"
    for heading in (*(name for name, _ in SECTIONS), OTHER):
        mine = sorted(
            (row for row in rows if section_of(row.bench_id) == heading),
            key=lambda row: place_of(row.bench_id),
        )
        if not mine:
            continue
        if table.row_count:
            table.add_row()
        table.add_row("", Text(heading, style=STRONG))
        before: tuple[str, str] = ("", "")
        for row in mine:
            told = (row.subject, case(row.parameters))
            cells = [
                *_what(row, with_case=told != before or len(told[1]) < _LONG),
                Text(row.subject),
                Text(quantity(row.median, row.unit)),
                _spread(row, is_wide=is_wide),
            ]
            before = told
            if is_wide:
                cells += [_beside(row, kind, with_value=kind == "reference") for kind, _ in kinds]
            elif kinds:
                lines = [
                    _beside(row, kind).append(f" of {name.removesuffix('erence')}", DIM)
                    for kind, name in kinds
                    if _is_worth_a_line(row, kind)
                ]
                cells.append(Text("\n").join(lines))
            table.add_row(*cells, *([Text(row.slowest, style=CAUTION)] if has_odd else []))
    return table


def _is_worth_a_line(row: Result, kind: ComparedTo) -> bool:
    """Peers that are alike need no words."""
    found = row.beside(kind)
    return bool(found) and (
        kind != "peers" or any(comparison.status is not Status.PASS for comparison in found)
    )


def _what(row: Result, *, with_case: bool) -> tuple[Text, Text]:
    """Glyph, then name and case; the next figures of the same case do without it."""
    glyph, style = _GLYPHS.get(row.status, ("·", DIM)) if row.status is not None else ("·", DIM)
    return Text(glyph, style=style), Text.assemble(
        name_of(row.bench_id, row.metric, row.parameters),
        (f" {case(row.parameters)}" if with_case else "", DIM),
    )


def _spread(row: Result, *, is_wide: bool) -> Text:
    if row.p95 == row.p5:
        return Text("-", style=DIM)
    if is_wide:
        low, high = quantity(row.p5, row.unit), quantity(row.p95, row.unit)
        same_unit = low.partition(" ")[2] == high.partition(" ")[2]
        return Text(f"{low.partition(' ')[0] if same_unit else low} .. {high}", style=DIM)
    share = row.spread * 100
    return Text(f"{share:.1f} %" if share < _ROUND else f"{share:.0f} %", style=DIM)


def _beside(row: Result, kind: ComparedTo, *, with_value: bool = False) -> Text:
    """The share of what it compares to; of several devices the worst, named where it is not like the
    others.
    """
    found = row.beside(kind)
    if not found:
        return Text("-", style=DIM)
    worst = min(found, key=lambda comparison: comparison.share)
    alone = len(found) > 1 and worst.status is not Status.PASS
    words = f"{clean(worst.subject)} " if alone else ""
    text = Text.assemble((f"{words}{worst.share * 100:.0f} %", _STYLES.get(worst.status, GOOD)))
    return text.append(f" of {quantity(worst.value, row.unit)}", DIM) if with_value else text


def sources_of(rows: Sequence[Result]) -> list[str]:
    """Where the values come from that the rows compare to, each once: `reference: H100 SXM, ...`."""
    found: dict[str, None] = {}
    for row in rows:
        for comparison in row.comparisons:
            if comparison.to != "peers":
                found.setdefault(f"{_name(comparison)}: {clean(comparison.source)}")
    return list(found)


def _name(comparison: Comparison) -> str:
    return next(name for kind, name in _KINDS if kind == comparison.to)
