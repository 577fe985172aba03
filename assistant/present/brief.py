"""What one benchmark has just measured, in one line: a partial result while the others still run."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.present.bench_words import case, name_of
from assistant.present.matrices import pair_of, worth_a_line
from assistant.present.results import Result, results
from assistant.present.text import clean, plural
from probes.measurements import Measurement
from probes.units import quantity

_MOST = 4
"""Cases in a line."""


def brief_lines(measurements: Sequence[Measurement]) -> list[str]:
    """`gemm  GPU0-7  GEMM bf16 8192³ 705 TFLOP/s (GPU5 -18 %), fp32 8192³ 52 TFLOP/s`, a line per benchmark and subject."""
    rows = results(worth_a_line(measurements, show_all=False), show_all=False)
    lines = [_line(bench_id, subject, rows) for bench_id, subject in dict.fromkeys((row.bench_id, row.subject) for row in rows)]
    for bench_id in dict.fromkeys(entry.bench_id for entry in measurements):
        pairs = {pair for entry in measurements if entry.bench_id == bench_id and (pair := pair_of(entry))}
        if pairs:
            lines.append(f"{clean(bench_id)}  {plural(len(pairs), 'pair')}")
    return lines


def _line(bench_id: str, subject: str, rows: Sequence[Result]) -> str:
    mine = [row for row in rows if (row.bench_id, row.subject) == (bench_id, subject)]
    words, name, told = [], "", ""
    for row in mine[:_MOST]:
        now = name_of(row.bench_id, row.metric, row.parameters)
        odd = f" ({row.slowest})" if row.slowest else ""
        what = case(row.parameters)
        parts = (now if now != name else "", what if what != told or now == name else "", quantity(row.median, row.unit))
        words.append(" ".join(filter(None, parts)) + odd)
        name, told = now, what
    more = f", and {len(mine) - _MOST} more" if len(mine) > _MOST else ""
    return f"{clean(bench_id)}  {subject}  {', '.join(words)}{more}"
