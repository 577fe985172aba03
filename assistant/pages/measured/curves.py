"""Extract curves from measurements: a rate over sizes, and values over time."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from assistant.pages.blocks import Curve, Figure, Row, Section, words
from assistant.pages.measured.bench_words import case
from probes.base.units import duration, gb_per_s, gib, quantity
from probes.bench.latency_bandwidth import Fit, fits
from probes.facts.measurements import Measurement

_FEWEST_POINTS = 3
_MOST_CURVES = 4
_POOR_FIT = 0.2
"""Residual above which the two numbers of a fit are only a rough summary."""
_MARGIN = 0.5
"""Part of the range that is shown below the smallest value: a curve over time shows its dips and does not
exaggerate noise.
"""


class _Sweep(NamedTuple):
    metric: str
    parameter: str
    title: str
    x_words: Callable[[float], str]


def _number(value: float) -> str:
    return f"{value:g}"


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
    sweeps = [drawn for sweep in _SWEEPS for drawn in _swept(sweep, measurements)]
    return (
        *sweeps,
        *(drawn for name, unit, title in _SERIES for drawn in _over_time(name, unit, title, measurements)),
    )


def _swept(sweep: _Sweep, measurements: Sequence[Measurement]) -> list[Figure]:
    """Return one figure per benchmark; devices alike are one curve of their medians."""
    benches: dict[str, dict[str, dict[float, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
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
        several = f" {entry.subject}" if len(ranks) > 1 else ""
        name = f"{_collective(entry)}{case(rest)}{several}".strip()
        benches[entry.bench_id][name][float(x)].append(entry.median)
    figures_of_sweep = []
    for lines in benches.values():
        curves = [
            Curve(name, tuple((x, statistics.median(values)) for x, values in sorted(points.items())))
            for name, points in lines.items()
            if len(points) >= _FEWEST_POINTS
        ]
        if curves:
            best = sorted(curves, key=lambda curve: -max(y for _, y in curve.points))[:_MOST_CURVES]
            figures_of_sweep.append(
                Figure(sweep.title, tuple(best), sweep.x_words, _words_in(unit), is_log=True)
            )
    return figures_of_sweep


def _collective(entry: Measurement) -> str:
    return (
        f"{str(entry.parameters['collective']).replace('_', '-')} "
        if "collective" in entry.parameters
        else ""
    )


def _over_time(name: str, unit: str, title: str, measurements: Sequence[Measurement]) -> list[Figure]:
    """Return one figure over time; with many devices, those with the lowest and the highest mean."""
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
    """Return a line for each collective, nothing without any: `all-reduce, 8 ranks  30 µs + bytes / 211 GB/s
    within 2 %`.
    """
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
