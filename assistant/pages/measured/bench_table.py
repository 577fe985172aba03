"""Show the table of results: sections, one line per case, each beside its references."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.pages.blocks import Cell, Column, Table, Tone, Words, words
from assistant.pages.measured.bench_words import OTHER, SECTIONS, case, name_of, place_of, section_of
from assistant.pages.measured.results import Result
from assistant.pages.terms import STATUS
from probes.base.units import quantity
from probes.compare.measurement_judgement import ComparedTo, Comparison
from probes.judging.findings import Status

WIDE = 110
"""Columns from which the percentiles and each comparison have a column of their own."""

_LONG = 16
"""Characters of a case that need not be repeated for the next figure."""
_ROUND = 10
"""Percent from which a spread needs no decimal."""
_KINDS: tuple[tuple[ComparedTo, str], ...] = (
    ("reference", "reference"),
    ("pinned", "pinned"),
    ("previous", "last run"),
    ("peers", "peers"),
)


def results_table(rows: Sequence[Result], *, width: int) -> Table:
    """Return the rows by section; from `WIDE` columns on, each comparison has a column of its own."""
    is_wide = width >= WIDE
    kinds = [kind for kind in _KINDS if any(row.beside(kind[0]) for row in rows)]
    names = [name for _, name in kinds] if is_wide else ["compared"] * bool(kinds)
    names += ["slowest"] if not kinds and any(row.slowest for row in rows) else []
    columns = (
        Column(least=1, fixed=True),
        Column(least=max(len(name) for name, _ in SECTIONS)),
        Column("on"),
        Column("median", right=True, fixed=True),
        Column("p5 .. p95" if is_wide else "±", right=True, fixed=True),
        *map(Column, names),
    )
    lines: list[tuple[Cell, ...]] = []
    for heading in (*(name for name, _ in SECTIONS), OTHER):
        mine = sorted(
            (row for row in rows if section_of(row.bench_id) == heading),
            key=lambda row: place_of(row.bench_id),
        )
        lines += [()] * bool(mine and lines) + [("", words((heading, "strong")))] * bool(mine)
        before: tuple[str, str] = ("", "")
        for row in mine:
            here = (row.subject, case(row.parameters))
            cells = (
                *_name(row, with_case=here != before or len(here[1]) < _LONG),
                row.subject,
                quantity(row.median, row.unit),
                words((_spread(row, is_wide=is_wide), "dim")),
            )
            if is_wide:
                compared = [tuple(_beside(row, kind, with_value=kind == "reference") for kind, _ in kinds)]
            else:
                compared = [(each,) for each in _all_beside(row, kinds)] or [()]
            last = (words((row.slowest, "caution")),) * (names[-1:] == ["slowest"])
            lines.append((*cells, *compared[0], *last))
            lines += [("",) * len(cells) + more for more in compared[1:]]
            before = here
    return Table(columns, tuple(lines))


def _name(row: Result, *, with_case: bool) -> tuple[Words, Words]:
    """Return the glyph, then name and case; further figures of the same case leave them out."""
    glyph: tuple[str, Tone] = (
        ("·", "dim") if row.status is None else (STATUS[row.status].glyph, STATUS[row.status].tone)
    )
    name = name_of(row.bench_id, row.metric, row.parameters)
    return words(glyph), words(name, (f" {case(row.parameters)}" if with_case else "", "dim"))


def _spread(row: Result, *, is_wide: bool) -> str:
    if row.p95 == row.p5:
        return "-"
    if is_wide:
        low, high = quantity(row.p5, row.unit), quantity(row.p95, row.unit)
        same_unit = low.partition(" ")[2] == high.partition(" ")[2]
        return f"{low.partition(' ')[0] if same_unit else low} .. {high}"
    share = row.spread * 100
    return f"{share:.1f} %" if share < _ROUND else f"{share:.0f} %"


def _all_beside(row: Result, kinds: Sequence[tuple[ComparedTo, str]]) -> list[Words]:
    """Return all references of the row; peers that are alike need no words."""
    return [
        _beside(row, kind) + words((f" of {name.removesuffix('erence')}", "dim"))
        for kind, name in kinds
        if row.beside(kind)
        and (kind != "peers" or any(each.status is not Status.PASS for each in row.beside(kind)))
    ]


def _beside(row: Result, kind: ComparedTo, *, with_value: bool = False) -> Words:
    """Return the share of the reference; for several devices the worst, named if it is unlike the others."""
    comparisons = row.beside(kind)
    if not comparisons:
        return words(("-", "dim"))
    worst = min(comparisons, key=lambda comparison: comparison.share)
    name = f"{worst.subject} " if len(comparisons) > 1 and worst.status is not Status.PASS else ""
    tone = STATUS[worst.status].tone if worst.status in (Status.FAIL, Status.WARN) else "good"
    of = f" of {quantity(worst.value, row.unit)}" if with_value else ""
    return words((f"{name}{worst.share * 100:.0f} %", tone), (of, "dim"))


def sources_of(rows: Sequence[Result]) -> list[str]:
    """Return the sources of the references, each once: `reference: H100 SXM, ...`."""
    compared = (comparison for row in rows for comparison in row.comparisons if comparison.to != "peers")
    return list(dict.fromkeys(f"{_title(comparison)}: {comparison.source}" for comparison in compared))


def _title(comparison: Comparison) -> str:
    return next(name for kind, name in _KINDS if kind == comparison.to)
