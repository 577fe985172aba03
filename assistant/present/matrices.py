"""Pairs as matrices: from whom to whom, and between which NUMA node and which device."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from assistant.present.bench_words import case, name_of
from assistant.present.text import CAUTION, DIM, Panel, clean
from probes.measurements import Measurement, Parameter
from probes.units import GB

_ENDS = (("from", "to"), ("numa_node", "memory_node"))
"""Names of parameters that hold two ends."""
_SUBJECT = re.compile(r"((?:GPU|rank )\d+)-((?:GPU|rank )\d+)")
_FEWEST = 2
"""Pairs that make a matrix."""
_LOW = 0.9
"""Share of the matrix's median below which a cell is marked."""


def pair_of(entry: Measurement) -> tuple[str, str] | None:
    """The two ends of what was measured; None where it has no two."""
    for one, other in _ENDS:
        if one in entry.parameters and other in entry.parameters:
            return _end(one, entry.parameters[one]), _end(other, entry.parameters[other])
    found = _SUBJECT.fullmatch(entry.subject)
    return (clean(found[1]), clean(found[2])) if found else None


def matrices(measurements: Sequence[Measurement]) -> tuple[Panel, ...]:
    """One matrix for each case of which several pairs were measured, in GB/s; rows are sources."""
    cells: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for entry in measurements:
        pair = pair_of(entry)
        if pair is None or entry.unit != "byte/s" or not entry.samples:
            continue
        rest = {name: value for name, value in entry.parameters.items() if not _is_end(name, entry.parameters)}
        # Of several sizes the best stands for the link, as in the table.
        title = f"{name_of(entry.bench_id, entry.metric, rest)} {case({n: v for n, v in rest.items() if n != 'bytes'})}".strip()
        known = cells[entry.bench_id, title]
        known[pair] = max(entry.median, known.get(pair, 0.0))
    return tuple(Panel(f"{title}, GB/s", _matrix(found)) for (_, title), found in cells.items() if len(found) >= _FEWEST)


def _end(name: str, value: Parameter) -> str:
    return clean(value) if isinstance(value, str) else f"{name.replace('_', ' ').replace('numa', 'cores of')} {value}"


def _is_end(name: str, parameters: dict[str, Parameter]) -> bool:
    return any(name in ends and all(end in parameters for end in ends) for ends in _ENDS)


def _matrix(found: dict[tuple[str, str], float]) -> Table:
    rows, columns = _ordered(pair[0] for pair in found), _ordered(pair[1] for pair in found)
    usual = statistics.median(found.values())
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style=DIM, expand=False)
    table.add_column("", style=DIM, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row, *(_cell(found.get((row, column)), usual) for column in columns))
    return table


def _ordered(names: object) -> list[str]:
    """GPU2 before GPU10."""
    return sorted(set(names), key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])  # type: ignore[call-overload]


def _cell(value: float | None, usual: float) -> Text:
    if value is None:
        return Text("-", style=DIM)
    return Text(f"{value / GB:.4g}", style=CAUTION if value < _LOW * usual else "")
