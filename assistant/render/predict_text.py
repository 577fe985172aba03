"""The bill of one case for the eye: what it costs in memory and time and for what, and what was assumed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from assistant.render.tables import plain_table, text_of, width_of_terminal
from probes.base.record import known
from probes.base.units import GIB, count, duration, gib, percent
from recipes.cases.collective import CollectivePrediction
from recipes.cases.prediction import CasePrediction
from recipes.planning.plan import MemoryBreakdown, terms_of
from recipes.planning.reasons import bound_words

_NOT_TERMS = frozenset(
    {"total", "allocated", "reserved", "upper", "margin", "needed", "logged", "logged_figure", "low", "high"}
)
_LEAST_SHARE = 0.0005
"""Part of a bill below which a term is written as 0 %, and says nothing."""
_FIGURES = {
    "allocated": "tensors (allocated)",
    "reserved": "the framework's (reserved)",
    "device": "nvidia-smi's (device)",
}
_INDENT = 11
_NARROWEST = 40


def render_case(case: CasePrediction | CollectivePrediction, *, colour: bool = False) -> str:
    """The bill of a run, or the time of a collective."""
    parts: list[RenderableType] = [Text(case.case_id or "(no case_id)", style="bold")]
    if case.status != "predicted":
        return text_of([*parts, f"  refused: {case.reason}"], colour=colour)
    if isinstance(case, CollectivePrediction):
        return text_of([*parts, *_collective(case)], colour=colour)
    for words in (case.title, case.layout):
        parts += _folded(words)
    parts += [*_memory(case), *_time(case), *_speed(case)]
    parts += _listed("rests on", case.rests_on) + _listed("assumed", case.assumed)
    return text_of(parts, colour=colour)


def _listed(label: str, items: tuple[str, ...], style: str = "dim") -> list[RenderableType]:
    """One item a line, those that are too long folded."""
    lines = []
    for item in items:
        lines += textwrap.wrap(item, max(_NARROWEST, width_of_terminal() - _INDENT)) or [""]
    return [
        Text(f"  {label if index == 0 else '':<{_INDENT - 2}}{line}", style=style)
        for index, line in enumerate(lines)
    ]


def _collective(case: CollectivePrediction) -> list[RenderableType]:
    assert case.time_us is not None  # noqa: S101 - it was predicted
    low, high = (None if end is None else end / 1e6 for end in (case.time_us_low, case.time_us_high))
    lines: list[RenderableType] = [
        f"  {duration(case.time_us / 1e6)}{_interval(low, high, duration)}, by {case.algorithm}"
    ]
    if case.busbw_gbps is not None:
        lines.append(f"  {case.busbw_gbps:.4g} GB/s of bus bandwidth")
    return [*lines, *([Text(f"  assumed  {case.reason}", style="dim")] if case.reason else [])]


def _memory(case: CasePrediction) -> list[RenderableType]:
    memory = case.memory
    if memory is None:
        return ["", "  Memory: not known"]
    lines: list[RenderableType] = [""]
    lines.append(
        Text(f"  Memory of the fullest GPU: {gib(memory.total)}, {_verdict(case, memory)}", style="bold")
    )
    lines.append(_table({name: getattr(memory, name) for name in _names(MemoryBreakdown)}, memory.total, gib))
    if case.peak_mem_gib is not None:
        low, high = case.peak_mem_low_gib, case.peak_mem_high_gib
        interval = (
            "" if low is None or high is None else f", in 8 of 10 cases {gib(low * GIB)} to {gib(high * GIB)}"
        )
        # Users of some stacks read the log of one pipeline stage, which is not the fullest.
        where = "on the GPU that is logged," if case.logged_stage else "of all this"
        figure = _FIGURES.get(case.memory_figure, "is reported")
        lines.append(f"  {where} {figure}: {gib(case.peak_mem_gib * GIB)}{interval}")
    if memory.margin:
        lines += _folded(f"a plan counts {bound_words(memory)}")
    return lines


def _folded(words: str) -> list[RenderableType]:
    width = max(_NARROWEST, width_of_terminal())
    return list(textwrap.wrap(words, width, initial_indent="  ", subsequent_indent="    "))


def _verdict(case: CasePrediction, memory: MemoryBreakdown) -> str:
    """Whether it fits, by what: no figure above the memory that there is stands as one that fits."""
    if case.fits is None or case.memory_limit_gib is None:
        return {True: "fits", False: "does not fit", None: "not known whether it fits"}[case.fits]
    limit = case.memory_limit_gib * GIB
    if case.fits_by_recomputing is not None:
        other = case.fits_by_recomputing
        return f"more than {gib(limit)}; with recomputation ({other.layout}) it fits: {gib(other.total_gib * GIB)}"
    if case.fits:
        return f"fits in {gib(limit)}"
    # What the allocator can keep is bounded by the GPU, what the run needs is not.
    needs = f": it needs {gib(memory.needed)}" if memory.total <= limit else ""
    return f"does not fit in {gib(limit)}{needs}"


def _time(case: CasePrediction) -> list[RenderableType]:
    time = case.time
    if time is None or not known(time.total):
        return ["", "  Step time: not known"]
    low, high = case.step_time_low_s, case.step_time_high_s
    if low is None and case.global_batch and case.samples_per_s_low and case.samples_per_s_high:
        low, high = case.global_batch / case.samples_per_s_high, case.global_batch / case.samples_per_s_low
    lines: list[RenderableType] = [""]
    lines.append(Text(f"  One step: {duration(time.total)}{_interval(low, high, duration)}", style="bold"))
    terms = {f"  {name}" if is_part else name: seconds for name, seconds, is_part in terms_of(time)}
    lines.append(_table(terms, time.total, duration))
    return lines


def _speed(case: CasePrediction) -> list[RenderableType]:
    words = []
    if case.tokens_per_s_per_gpu is not None:
        words.append(f"{count(case.tokens_per_s_per_gpu)} tokens/s per GPU")
    if case.samples_per_s is not None:
        words.append(f"{case.samples_per_s:.4g} samples/s in all")
    if case.mfu is not None:
        words.append(f"MFU {percent(case.mfu)} (causal attention counted)")
    return ["", *_listed("speed", (", ".join(words),), style="")] if words else [""]


def _names(record: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(record) if field.name not in _NOT_TERMS]


def _table(terms: Mapping[str, object], total: float, written: Callable[[float], str]) -> Table:
    table = plain_table("", "", "")
    table.show_header = False
    table.columns[1].justify = "right"
    for name, value in terms.items():
        if name == "gradients" and value == 0:
            table.add_row(f"    {name}", "none", "at the moment of the peak")
        elif isinstance(value, float | int) and value / total >= _LEAST_SHARE:
            table.add_row(f"    {name.replace('_', ' ')}", written(value), percent(round(value / total, 3)))
    return table


def _interval(low: float | None, high: float | None, written: Callable[[float], str]) -> str:
    if low is None or high is None:
        return ""
    return f", in 8 of 10 cases {written(low)} to {written(high)}"
