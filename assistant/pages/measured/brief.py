"""What one benchmark has just measured, in one line: a partial result while the others still run."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.pages.measured.bench_words import case, is_secondary, name_of
from assistant.pages.measured.matrices import is_link, pair_of
from assistant.pages.measured.results import Result, results
from probes.base.units import plural, quantity
from probes.facts.measurements import Measurement

_MOST = 4
"""Cases in a line."""


def brief_lines(measurements: Sequence[Measurement]) -> list[str]:
    """`gemm  GPU0-7  GEMM bf16 8192³ 705 TFLOP/s (GPU5 -18 %), fp32 8192³ 52 TFLOP/s`, a line per benchmark
    and subject.
    """
    rows = results(
        [entry for entry in measurements if not is_secondary(entry.metric) and not is_link(entry)],
        show_all=False,
    )
    lines = [
        _line(bench_id, subject, rows)
        for bench_id, subject in dict.fromkeys((row.bench_id, row.subject) for row in rows)
    ]
    for bench_id in dict.fromkeys(entry.bench_id for entry in measurements):
        pairs = {pair_of(entry) for entry in measurements if entry.bench_id == bench_id and is_link(entry)}
        if pairs:
            lines.append(f"{bench_id}  {plural(len(pairs), 'pair')}")
    return lines


def _line(bench_id: str, subject: str, rows: Sequence[Result]) -> str:
    mine = [row for row in rows if (row.bench_id, row.subject) == (bench_id, subject)]
    words, name, told = [], "", ""
    shown = {
        (row.metric, case(row.parameters), row.median): row for row in mine
    }  # what was told twice is said once
    mine = list(shown.values())
    for row in mine[:_MOST]:
        now = name_of(row.bench_id, row.metric, row.parameters)
        odd = f" ({row.slowest})" if row.slowest else ""
        what = case(row.parameters)
        parts = (
            now if now != name else "",
            what if what != told or now == name else "",
            quantity(row.median, row.unit),
        )
        words.append(" ".join(filter(None, parts)) + odd)
        name, told = now, what
    more = f", and {len(mine) - _MOST} more" if len(mine) > _MOST else ""
    return f"{bench_id}  {subject}  {', '.join(words)}{more}"
