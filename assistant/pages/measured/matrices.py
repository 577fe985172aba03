"""Pairs as matrices: from whom to whom, and between which NUMA node and which device."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

import probes.compare.slow_pairs
from assistant.pages.blocks import Cell, Column, Section, Table, words
from assistant.pages.measured.bench_words import case, is_secondary, name_of
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
    """Return the two ends of what was measured; None where it has no two."""
    for one, other in _ENDS:
        if one in entry.parameters and other in entry.parameters:
            return _end(one, entry.parameters[one]), _end(other, entry.parameters[other])
    ends = probes.compare.slow_pairs.pair_of(entry.subject)
    if ends is None:
        return None
    first, second = sorted(ends, key=entry.subject.index)
    return first, second


def matrices(
    measurements: Sequence[Measurement], comparisons: Sequence[Comparison] = ()
) -> tuple[Section, ...]:
    """Return one matrix for each case of which several pairs were measured, in GB/s; rows are senders, or the
    cores that work.

    Where all pairs compare to one reference, the title has it.
    """
    references = {_identity(one): (one.value, one.source) for one in comparisons if one.to == "reference"}
    panels = []
    for (_, title), cells in _by_case(measurements).items():
        known = {references.get(_identity(one)) for cell in cells.values() for one in cell}
        reference = known.pop() if len(known) == 1 else None
        beside = (
            f", reference {reference[0] / GB:.4g} ({reference[1].partition(';')[0]})" if reference else ""
        )
        body = _matrix({pair: max(one.median for one in cell) for pair, cell in cells.items()})
        panels.append(Section(f"{title}, GB/s{beside}", (body,)))
    return tuple(panels)


def _identity(entry: Measurement | Comparison) -> object:
    return entry.bench_id, entry.metric, entry.subject, tuple(sorted(entry.parameters.items()))


def worth_a_line(measurements: Sequence[Measurement], *, show_all: bool) -> list[Measurement]:
    """Return what the table shows: neither what stands in a matrix nor what another figure says too.

    A device with itself stands in both.
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
    """Return benchmark and case, then pair, then its measurements: of several sizes the best stands for a
    link.
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
    """Return whether it goes between two ends; a node's cores and its own memory are none."""
    parameters = entry.parameters
    own = any(one in parameters and parameters[one] == parameters.get(other) for one, other in _ENDS)
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
