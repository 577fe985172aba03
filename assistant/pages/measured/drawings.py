"""Draw measurements: curves of a rate over sizes or of values over time, and matrices of pairs."""

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import probes.compare.slow_parts
from assistant.pages.blocks import Cell, Column, Curve, Figure, Row, Section, Table, words
from assistant.pages.measured.bench_table import SECONDARY, case, name_of
from probes.base.grouping import grouped
from probes.base.units import GB, duration, gb_per_s, gib, quantity
from probes.bench.latency_bandwidth import Fit, fits
from probes.compare.measurement_judgement import Comparison
from probes.facts.measurements import Measurement, Parameter

_FEWEST_POINTS = 3
_MOST_CURVES = 4
_POOR_FIT = 0.2
"""Residual above which a fit (latency and bandwidth) is shown as a poor fit."""
_MARGIN = 0.5
"""Fraction of the range of values that is shown below the smallest value.

The margin keeps noise small in the drawing, but dips stay visible.
"""


class _Sweep(NamedTuple):
    metric: str
    parameter: str
    title: str
    x_words: Callable[[float], str]


_number = "{:g}".format

_SWEEPS = (
    _Sweep("gemm_flops_per_s", "k", "Square matrix products by size", _number),
    _Sweep("attention_flops_per_s", "sequence_length", "Attention by sequence length", _number),
    _Sweep("peer_bandwidth_bytes_per_s", "bytes", "Copies between GPUs by size", gib),
    _Sweep("bus_bandwidth_bytes_per_s", "bytes", "Bus bandwidth by message size", gib),
    _Sweep("batch_rate_per_s", "num_workers", "Batches per second by DataLoader workers", _number),
    _Sweep("tokens_per_s", "micro_batch", "Tokens per second by micro-batch", _number),
    _Sweep("images_per_s", "micro_batch", "Images per second by micro-batch", _number),
)
_SERIES = (
    ("sm_clock_hz", "Hz", "SM clock over time"),
    ("temperature_c", "degC", "GPU temperature over time"),
)


def figures(measurements: Sequence[Measurement]) -> tuple[Figure, ...]:
    """Return every sweep and every series of at least three points, in a fixed order."""
    return (
        *(drawn for sweep in _SWEEPS for drawn in _swept(sweep, measurements)),
        *(drawn for name, unit, title in _SERIES for drawn in _over_time(name, unit, title, measurements)),
    )


def _swept(sweep: _Sweep, measurements: Sequence[Measurement]) -> list[Figure]:
    """Return one figure per benchmark; equal devices share one curve, which shows their medians."""
    points = []
    unit = ""
    ranks = {
        entry.subject
        for entry in measurements
        if entry.metric == sweep.metric and entry.subject[:1].isdigit()
    }
    for entry in measurements:
        x = entry.parameters.get(sweep.parameter)
        is_square = len({entry.parameters.get(name) for name in ("m", "n", "k")}) == 1
        if entry.metric != sweep.metric or not entry.samples or not is_square:
            continue
        if isinstance(x, bool) or not isinstance(x, (int, float)) or x <= 0:
            continue
        unit = entry.unit
        rest = {
            name: value
            for name, value in entry.parameters.items()
            if name not in (sweep.parameter, "m", "n", "k")
        }
        collective = entry.parameters.get("collective")
        parts = (str(collective).replace("_", "-") if collective else "", case(rest))
        name = " ".join(filter(None, (*parts, entry.subject if len(ranks) > 1 else "")))
        points.append((entry.bench_id, (name, (float(x), entry.median))))
    figures_of_sweep = []
    for lines in grouped(points).values():
        named = ((name, grouped(line)) for name, line in grouped(lines).items())
        curves = [
            Curve(name, tuple((x, statistics.median(values)) for x, values in sorted(line.items())))
            for name, line in named
            if len(line) >= _FEWEST_POINTS
        ]
        if curves:
            best = sorted(curves, key=lambda curve: -max(y for _, y in curve.points))[:_MOST_CURVES]
            figures_of_sweep.append(
                Figure(sweep.title, tuple(best), sweep.x_words, _words_in(unit), is_log=True)
            )
    return figures_of_sweep


def _over_time(name: str, unit: str, title: str, measurements: Sequence[Measurement]) -> list[Figure]:
    """Return one figure over time.

    For many devices, show only the devices with the lowest, middle and highest mean.
    """
    curves = []
    for entry in measurements:
        series = entry.series.get(name, ())
        times = entry.series.get("elapsed_s", ())
        moments = times if len(times) == len(series) else tuple(float(index) for index in range(len(series)))
        if len(series) >= _FEWEST_POINTS:
            curves.append(Curve(entry.subject, tuple(zip(moments, series, strict=True))))
    curves.sort(key=lambda curve: statistics.fmean(y for _, y in curve.points))
    if len(curves) > _MOST_CURVES:
        curves = [curves[0], curves[len(curves) // 2], curves[-1]]
    if not curves:
        return []
    values = [y for curve in curves for _, y in curve.points]
    floor = max(0.0, min(values) - _MARGIN * max(max(values) - min(values), 0.1 * max(values)))
    return [Figure(title, tuple(curves), _moment, _words_in(unit), floor=floor)]


def _moment(seconds: float) -> str:
    return duration(seconds) if seconds else "0 s"


def _words_in(unit: str) -> Callable[[float], str]:
    return lambda value: quantity(value, unit)


def fit_section(measurements: Sequence[Measurement]) -> Section:
    """Return a line for each collective: `all-reduce, 8 ranks  30 µs + bytes / 211 GB/s  within 2 %`."""
    rows = tuple(map(_fit, fits(measurements)))
    return Section("Time of a collective: latency + bytes / algorithm bandwidth" if rows else "", rows)


def _fit(fit: Fit) -> Row:
    parts = []
    for line in fit.lines:
        bandwidth = line.bandwidth_bytes_per_s
        time = _moment(line.latency_s) + (
            f" + bytes / {gb_per_s(bandwidth)}" if bandwidth is not None else ""
        )
        parts.append(f"{time} up to {gib(line.high_bytes)}" if len(fit.lines) > 1 else time)
    name = str(fit.parameters.get("collective", fit.bench_id)).replace("_", "-")
    layer = f" over {fit.parameters['layers']}" if "layers" in fit.parameters else ""
    error = f"  {'poor fit, ' if fit.residual > _POOR_FIT else ''}within {fit.residual * 100:.0f} %"
    return Row(words(f"  {f'{name}{layer}, {fit.subject}':<26}  {', then '.join(parts)}", (error, "dim")))


_ENDS = (("from", "to"), ("numa_node", "memory_node"))
"""Names of the parameters that contain the two ends of a transfer."""
_FEWEST_PAIRS = 2
"""Minimum number of pairs for which a matrix is drawn."""
_LOW = 0.9
"""A cell is marked if its value is less than this share of the matrix's median."""


def pair_of(entry: Measurement) -> tuple[str, str] | None:
    """Return the two ends of a measurement; None if it does not have two ends."""
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

    Rows are the senders, or the cores that access memory. If all pairs have the same reference, the title
    contains this reference.
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

    Values that a matrix shows, and results that repeat other results, are left out; a measurement of a device
    with itself is both in the matrix and in the table.
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
    return [entry for entry in measurements if id(entry) not in inside and entry.metric not in SECONDARY]


def _by_case(
    measurements: Sequence[Measurement],
) -> dict[tuple[str, str], dict[tuple[str, str], list[Measurement]]]:
    """Return measurements by benchmark and case, then by pair; measurements of one pair differ in `bytes`.

    Cases with fewer than `_FEWEST_PAIRS` pairs are left out.
    """
    paired = []
    for entry in measurements:
        pair = pair_of(entry)
        if pair is not None and entry.unit == "byte/s" and entry.samples:
            ends = {name for names in _ENDS if entry.parameters.keys() >= set(names) for name in names}
            rest = {name: value for name, value in entry.parameters.items() if name not in {*ends, "bytes"}}
            title = f"{name_of(entry.bench_id, entry.metric, rest)} {case(rest)}".strip()
            paired.append(((entry.bench_id, title), (pair, entry)))
    cases = {key: grouped(entries) for key, entries in grouped(paired).items()}
    return {key: cells for key, cells in cases.items() if len(cells) >= _FEWEST_PAIRS}


def is_link(entry: Measurement) -> bool:
    """Return whether a measurement has two different ends.

    For example, a measurement of a NUMA node's cores with the memory of the same node has equal ends.
    """
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
