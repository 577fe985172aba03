"""Measurements for the eye: devices alike share a line, and of a sweep over sizes the best case stands for all."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from assistant.present.text import clean, folded
from probes.facts import MachineFacts
from probes.hardware import Catalogue
from probes.measurements import Measurement, Parameter
from probes.record import known
from probes.units import gib, percent

_SWEPT = frozenset({"m", "n", "k", "bytes", "micro_batch"})
"""Parameters of which a benchmark tries several values to find the best."""
_IMPLIED = frozenset({"world_size", "collective", "backend"})
"""Parameters that the subject or the benchmark's name tells already."""
_SHORT = {"micro_batch": "micro-batch", "sequence_length": "sequence"}
_ODD = 0.05
"""Share below the median from which the slowest of several devices is named."""


class Result(NamedTuple):
    """One line of the table."""

    bench_id: str
    metric: str
    unit: str
    subject: str
    """`GPU0-7` where several devices ran the same case."""
    median: float
    """Median over the devices' medians."""
    spread: float
    """Half of the range from the 5th to the 95th percentile over the median; the largest of the devices."""
    parameters: dict[str, Parameter]
    slowest: str
    """The device that is clearly slower than the others, with how much; else empty."""


class Reference(NamedTuple):
    """A published figure to compare with."""

    value: float
    source: str
    is_measured: bool
    """Somebody reached it; a datasheet's peak nobody reaches."""


def results(measurements: Sequence[Measurement], *, show_all: bool) -> tuple[Result, ...]:
    """In the order of the measurements; with `show_all` every case of a sweep."""
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for entry in measurements:
        family = re.sub(r"\d+$", "", entry.subject)
        groups.setdefault((entry.bench_id, entry.metric, family, _key(entry.parameters)), []).append(entry)
    cases = [_result(group) for group in groups.values()]
    if show_all:
        return tuple(cases)
    best: dict[tuple[object, ...], Result] = {}
    for case in cases:
        key = (case.bench_id, case.metric, case.subject, _key(case.parameters, without=_SWEPT))
        if key not in best or _is_better(case, best[key]):
            best[key] = case
    return tuple(best.values())


def _key(parameters: dict[str, Parameter], without: frozenset[str] = frozenset()) -> tuple[tuple[str, Parameter], ...]:
    return tuple(sorted((name, value) for name, value in parameters.items() if name not in without))


def _is_better(one: Result, other: Result) -> bool:
    return one.median < other.median if one.unit == "s" else one.median > other.median


def _result(group: Sequence[Measurement]) -> Result:
    first = group[0]
    medians = [entry.median for entry in group]
    middle = statistics.median(medians)
    spreads = [(entry.quantile(0.95) - entry.quantile(0.05)) / 2 / entry.median for entry in group if entry.median]
    return Result(
        bench_id=first.bench_id,
        metric=first.metric,
        unit=first.unit,
        subject=_subjects([entry.subject for entry in group]),
        median=middle,
        spread=max(spreads, default=0.0),
        parameters=first.parameters,
        slowest=_slowest(group, middle),
    )


def _subjects(names: Sequence[str]) -> str:
    numbers = [match for name in names if (match := re.fullmatch(r"(\D*)(\d+)", name))]
    if len(numbers) < len(names) or len(names) == 1:
        return ", ".join(dict.fromkeys(clean(name) for name in names))
    family = numbers[0][1]
    return clean(family) + " " * family.endswith(" ") + folded([int(match[2]) for match in numbers])


def _slowest(group: Sequence[Measurement], middle: float) -> str:
    if len(group) < 2 or not middle or group[0].unit == "byte":
        return ""
    worst = max(group, key=lambda entry: entry.median) if group[0].unit == "s" else min(group, key=lambda entry: entry.median)
    share = abs(worst.median - middle) / middle
    sign = "+" if group[0].unit == "s" else "-"
    return f"{clean(worst.subject)} {sign}{percent(share)}" if share >= _ODD else ""


def title(result: Result) -> str:
    """The benchmark, and the metric where it has several."""
    words = result.metric.replace("model_flops_per_s", "FLOP rate")
    for suffix in ("_bytes_per_s", "_flops_per_s", "_bytes", "_s"):
        words = words.removesuffix(suffix)
    bench = clean(result.bench_id)
    words = clean(words.replace("_", " "))
    return bench if words in (bench, "memory bandwidth") else f"{bench} {words}"


def case(parameters: dict[str, Parameter]) -> str:
    """What identifies the case, short: `bf16 8192×8192×8192`, `device_to_device 512 MiB`."""
    shape = "×".join(str(parameters[name]) for name in ("m", "n", "k") if name in parameters)
    words = []
    for name, value in parameters.items():
        if name in _IMPLIED or name in ("m", "n", "k"):
            continue
        if name == "bytes" and isinstance(value, (int, float)):
            words.append(gib(value))
        elif isinstance(value, str):
            words.append(clean(value).replace("_to_", "→"))
        else:
            words.append(f"{_SHORT.get(name, clean(name).replace('_', ' '))} {clean(value)}")
    return " ".join([*words, shape] if shape else words)


def reference_of(result: Result, facts: MachineFacts | None, catalogue: Catalogue) -> Reference | None:
    """The published figure of this GPU that a result compares with; None where there is none."""
    gpus = facts.gpus if facts is not None and known(facts.gpus) else ()
    name = gpus[0].name if gpus else None
    model = catalogue.gpu(name) if isinstance(name, str) else None
    if model is None or result.subject.startswith("CPU"):
        return None
    dtype = str(result.parameters.get("dtype", result.parameters.get("precision", "")))
    match result.bench_id, result.unit:
        case "gemm", "flop/s" if dtype in model.achievable_flops_per_s:
            return Reference(model.achievable_flops_per_s[dtype], "measured", is_measured=True)
        case "gemm" | "train-step", "flop/s" if dtype in model.peak_flops_per_s:
            return Reference(model.peak_flops_per_s[dtype], "datasheet", is_measured=False)
        case "collectives", "byte/s" if model.ring_bus_bandwidth_bytes_per_s:
            return Reference(model.ring_bus_bandwidth_bytes_per_s, "measured", is_measured=True)
        case "memory-copy", "byte/s" if result.parameters.get("direction") == "device_to_device":
            return Reference(model.memory_bandwidth_bytes_per_s, "datasheet", is_measured=False)
        case _:
            return None
