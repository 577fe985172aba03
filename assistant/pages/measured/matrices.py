"""Show pairs as matrices: from sender to receiver, or from NUMA node to device."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

import probes.compare.slow_parts
from assistant.pages.blocks import Cell, Column, Section, Table, words
from assistant.pages.measured.bench_words import case, is_secondary, name_of
from probes.base.units import GB
from probes.compare.measurement_judgement import Comparison
from probes.facts.measurements import Measurement, Parameter

_ENDS = (("from", "to"), ("numa_node", "memory_node"))
"""Names of parameters that contain the two ends."""
_FEWEST = 2
"""Smallest number of pairs that make a matrix."""
_LOW = 0.9
"""Share of the matrix's median below which a cell is marked."""


def pair_of(entry: Measurement) -> tuple[str, str] | None:
    """Return the two ends of a measurement; None if it has no two."""
    for first, second in _ENDS:
        if first in entry.parameters and second in entry.parameters:
            return _end(first, entry.parameters[first]), _end(second, entry.parameters[second])
    ends = probes.compare.slow_parts.pair_of(entry.subject)
    if ends is None:
        return None
    first, second = sorted(ends, key=entry.subject.index)
    return first, second


def matrices(
    measurements: Sequence[Measurement], comparisons: Sequence[Comparison] = ()
) -> tuple[Section, ...]:
    """Return a matrix for each case with several measured pairs, in GB/s.

    Rows are senders, or the cores that work. If all pairs have the same reference, the title contains it.
    """
    references = {
        _identity(each): (each.value, each.source) for each in comparisons if each.to == "reference"
    }
    panels = []
    for (_, title), cells in _by_case(measurements).items():
        known = {references.get(_identity(each)) for cell in cells.values() for each in cell}
        reference = known.pop() if len(known) == 1 else None
        beside = (
            f", reference {reference[0] / GB:.4g} ({reference[1].partition(';')[0]})" if reference else ""
        )
        body = _matrix({pair: max(each.median for each in cell) for pair, cell in cells.items()})
        panels.append(Section(f"{title}, GB/s{beside}", (body,)))
    return tuple(panels)


def _identity(entry: Measurement | Comparison) -> object:
    return entry.bench_id, entry.metric, entry.subject, tuple(sorted(entry.parameters.items()))


def worth_a_line(measurements: Sequence[Measurement], *, show_all: bool) -> list[Measurement]:
    """Return the measurements that the table shows.

    Values of a matrix and repetitions of other figures are left out; a device with itself is in both.
    """
    if show_all:
        return list(measurements)
    inside = {
        id(entry)
        for cells in _by_case(measurements).values()
        for cell in cells.values()
        for entry in cell
        if is_link(entry)
    }
    return [entry for entry in measurements if id(entry) not in inside and not is_secondary(entry.metric)]


def _by_case(
    measurements: Sequence[Measurement],
) -> dict[tuple[str, str], dict[tuple[str, str], list[Measurement]]]:
    """Return measurements by benchmark and case, then by pair; the best size represents a link."""
    cases: dict[tuple[str, str], dict[tuple[str, str], list[Measurement]]] = defaultdict(
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
        cases[entry.bench_id, f"{name_of(entry.bench_id, entry.metric, rest)} {case(rest)}".strip()][
            pair
        ].append(entry)
    return {key: cells for key, cells in cases.items() if len(cells) >= _FEWEST}


def is_link(entry: Measurement) -> bool:
    """Return whether a measurement goes between two ends; a node's cores with its own memory do not."""
    parameters = entry.parameters
    own = any(first in parameters and parameters[first] == parameters.get(second) for first, second in _ENDS)
    return not own and pair_of(entry) is not None


def _end(name: str, value: Parameter) -> str:
    return (
        value if isinstance(value, str) else f"{name.replace('_', ' ').replace('numa', 'cores of')} {value}"
    )


def _matrix(pairs: dict[tuple[str, str], float]) -> Table:
    rows, columns = _ordered(pair[0] for pair in pairs), _ordered(pair[1] for pair in pairs)
    usual = statistics.median(pairs.values())
    heads = (Column(fixed=True), *(Column(name, right=True, fixed=True) for name in columns))
    cells = tuple(
        (words((row, "dim")), *(_cell(pairs.get((row, column)), usual) for column in columns)) for row in rows
    )
    return Table(heads, cells, gap=1)


def _ordered(names: Iterable[str]) -> list[str]:
    """Return the names in natural order: GPU2 before GPU10."""
    return sorted(
        set(names),
        key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)],
    )


def _cell(value: float | None, usual: float) -> Cell:
    if value is None:
        return words(("-", "dim"))
    return words((f"{value / GB:.4g}!", "caution")) if value < _LOW * usual else f"{value / GB:.4g}"
