"""What a collective costs by its size, as the two numbers of its fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from assistant.present.text import DIM, STRONG, clean, joined
from probes.base.units import duration, gb_per_s, gib
from probes.bench.latency_bandwidth import Fit, fits
from probes.facts.measurements import Measurement

_POOR = 0.2
"""Residual from which the two numbers are no more than a rough summary."""


def fit_lines(measurements: Sequence[Measurement]) -> Text:
    """A line for each collective, empty without any: `all-reduce, 8 ranks  30 µs + bytes / 211 GB/s  within 2
    %`.
    """
    found = fits(measurements)
    if not found:
        return Text()
    return joined(
        Text("Time of a collective: latency + bytes / algorithm bandwidth", style=STRONG), *map(_line, found)
    )


def _line(fit: Fit) -> Text:
    parts = []
    for line in fit.lines:
        bandwidth = line.bandwidth_bytes_per_s
        words = duration(line.latency_s) if line.latency_s else "0 s"
        words += f" + bytes / {gb_per_s(bandwidth)}" if bandwidth is not None else ""
        parts.append(f"{words} up to {gib(line.high_bytes)}" if len(fit.lines) > 1 else words)
    name = clean(fit.parameters.get("collective", fit.bench_id)).replace("_", "-")
    layer = f" over {clean(fit.parameters['layers'])}" if "layers" in fit.parameters else ""
    error = f"  {'poor fit, ' if fit.residual > _POOR else ''}within {fit.residual * 100:.0f} %"
    return Text.assemble(
        f"  {f'{name}{layer}, {clean(fit.subject)}':<26}  {', then '.join(parts)}", (error, DIM)
    )
