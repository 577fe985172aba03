"""Pairs as matrices: from whom to whom, and between which NUMA node and which device."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

import probes.compare.slow_pairs
from assistant.present.bench_words import case, is_secondary, name_of
from assistant.present.text import CAUTION, DIM, Panel, clean
from probes.base.units import GB
from probes.compare.measurement_judgement import Comparison
from probes.facts.measurements import Measurement, Parameter

_ENDS = (("from", "to"), ("numa_node", "memory_node"))
"""Names of parameters that hold two ends."""
_FEWEST = 2
"""Pairs that make a matrix."""
_LOW = 0.9
"""Share of the matrix's median below which a cell is marked."""


def pair_of(entry: Measurement) -> tuple[str, str] | None:
    """The two ends of what was measured; None where it has no two."""
    for one, other in _ENDS:
        if one in entry.parameters and other in entry.parameters:
            return _end(one, entry.parameters[one]), _end(other, entry.parameters[other])
    ends = probes.compare.slow_pairs.pair_of(entry.subject)
    if ends is None:
        return None
    first, second = sorted(ends, key=entry.subject.index)
    return clean(first), clean(second)


def matrices(
    measurements: Sequence[Measurement], comparisons: Sequence[Comparison] = ()
) -> tuple[Panel, ...]:
    """One matrix for each case of which several pairs were measured, in GB/s; rows are senders, or the cores
    that work.

    Where all pairs compare to one reference, the title has it.
    """
    references = {_identity(one): (one.value, one.source) for one in comparisons if one.to == "reference"}
    panels = []
    for (_, title), cells in _by_case(measurements).items():
        known = {references.get(_identity(one)) for cell in cells.values() for one in cell}
        reference = known.pop() if len(known) == 1 else None
        beside = (
            f", reference {reference[0] / GB:.4g} ({clean(reference[1].partition(';')[0])})"
            if reference
            else ""
        )
        body = _matrix({pair: max(one.median for one in cell) for pair, cell in cells.items()})
        panels.append(Panel(f"{title}, GB/s{beside}", body))
    return tuple(panels)


def _identity(entry: Measurement | Comparison) -> object:
    return entry.bench_id, entry.metric, entry.subject, tuple(sorted(entry.parameters.items()))


def worth_a_line(measurements: Sequence[Measurement], *, show_all: bool) -> list[Measurement]:
    """What the table shows: neither what stands in a matrix, but for a device with itself, nor what another
    figure says too.
    """
    if show_all:
        return list(measurements)
    inside = {
        id(one)
        for cells in _by_case(measurements).values()
        for cell in cells.values()
        for one in cell
        if is_link(one)
    }
    return [entry for entry in measurements if id(entry) not in inside and not is_secondary(entry.metric)]


def _by_case(
    measurements: Sequence[Measurement],
) -> dict[tuple[str, str], dict[tuple[str, str], list[Measurement]]]:
    """Benchmark and case, then pair, then its measurements: of several sizes the best stands for a link, as
    in the table.
    """
    found: dict[tuple[str, str], dict[tuple[str, str], list[Measurement]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for entry in measurements:
        pair = pair_of(entry)
        if pair is None or entry.unit != "byte/s" or not entry.samples:
            continue
        ends = {
            name
            for pair_names in _ENDS
            if all(name in entry.parameters for name in pair_names)
            for name in pair_names
        }
        rest = {
            name: value for name, value in entry.parameters.items() if name not in ends and name != "bytes"
        }
        found[entry.bench_id, f"{name_of(entry.bench_id, entry.metric, rest)} {case(rest)}".strip()][
            pair
        ].append(entry)
    return {key: cells for key, cells in found.items() if len(cells) >= _FEWEST}


def is_link(entry: Measurement) -> bool:
    """Between two ends; a node's cores and its own memory are none."""
    parameters = entry.parameters
    own = any(one in parameters and parameters[one] == parameters.get(other) for one, other in _ENDS)
    return not own and pair_of(entry) is not None


def _end(name: str, value: Parameter) -> str:
    return (
        clean(value)
        if isinstance(value, str)
        else f"{name.replace('_', ' ').replace('numa', 'cores of')} {value}"
    )


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
    return sorted(
        set(names),
        key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)],
    )  # type: ignore[call-overload]


def _cell(value: float | None, usual: float) -> Text:
    if value is None:
        return Text("-", style=DIM)
    return Text(f"{value / GB:.4g}!", style=CAUTION) if value < _LOW * usual else Text(f"{value / GB:.4g}")
