"""Show the breakdown of one case: its memory and time, term by term, and the assumptions."""

from collections.abc import Callable

from assistant.pages.blocks import Block, Cell, Page, Row, Section, section, words
from assistant.pages.training.bill import memory_lines, speed, time_terms
from probes.base.record import known
from probes.base.units import GIB, duration, gib
from recipes.cases.collective import CollectivePrediction
from recipes.cases.prediction import CasePrediction
from recipes.predict.breakdowns import MemoryBreakdown, memory_words

_FIGURES = {
    "allocated": "allocated by tensors",
    "reserved": "reserved by the framework",
    "device": "shown by nvidia-smi",
}
_LABELLED = 11
_INDENT = 4


def case_page(case: CasePrediction | CollectivePrediction) -> Page:
    """Return the memory and time of a run, the time of a collective, or the reason of a refusal."""
    title = case.case_id or "(no case_id)"
    if case.status != "predicted":
        return (section(title, [f"  refused: {case.reason}"]),)
    if isinstance(case, CollectivePrediction):
        return (section(title, _collective(case)),)
    known_speed = speed(case.tokens_per_s_per_gpu, case.mfu, case.samples_per_s)
    listed = (
        [Row(known_speed, "  speed")] * bool(known_speed)
        + _listed("rests on", case.rests_on)
        + _listed("assumed", case.assumed)
    )
    return (
        section(title, [f"  {line}" for line in (case.title, case.layout) if line]),
        _memory(case),
        _time(case),
        Section("", tuple(listed), _LABELLED),
    )


def _listed(label: str, items: tuple[str, ...]) -> list[Row]:
    """Return one row for each item; only the first row has the label."""
    return [
        Row(words((item, "dim")), words((f"  {label}", "dim")) if number == 0 else "")
        for number, item in enumerate(items)
    ]


def _collective(case: CollectivePrediction) -> list[Cell]:
    assert case.time_us is not None  # noqa: S101 - it was predicted
    low, high = (None if end is None else end / 1e6 for end in (case.time_us_low, case.time_us_high))
    lines: list[Cell] = [
        f"  {duration(case.time_us / 1e6)}{_interval(low, high, duration)}, by {case.algorithm}"
    ]
    lines += [f"  {case.busbw_gbps:.4g} GB/s of bus bandwidth"] if case.busbw_gbps is not None else []
    return [*lines, *([words((f"  assumed  {case.reason}", "dim"))] if case.reason else [])]


def _memory(case: CasePrediction) -> Section:
    memory = case.memory
    if memory is None:
        return section("  Memory: not known", [])
    blocks: list[Block | Cell] = memory_lines(memory)
    if case.peak_mem_gib is not None:
        low, high = (
            None if end is None else end * GIB for end in (case.peak_mem_low_gib, case.peak_mem_high_gib)
        )
        # Some software stacks log the memory of one pipeline stage, which is not the stage that needs most.
        where = "on the GPU that is logged," if case.logged_stage else "as users report this run,"
        figure = _FIGURES.get(case.memory_figure, "reported")
        blocks.append(f"{where} {figure}: {gib(case.peak_mem_gib * GIB)}{_interval(low, high, gib)}")
    figures = memory_words(memory.allocated, memory.reserved, memory.upper)
    return section(f"  Memory of the fullest GPU: {figures}; {_verdict(case, memory)}", blocks, _INDENT)


def _verdict(case: CasePrediction, memory: MemoryBreakdown) -> str:
    """Return in words whether the case fits into the available memory."""
    if case.fits is None or case.memory_limit_gib is None:
        return {True: "fits", False: "does not fit", None: "not known whether it fits"}[case.fits]
    limit = case.memory_limit_gib * GIB
    if case.fits_by_recomputing is not None:
        other = case.fits_by_recomputing
        return f"fits in {gib(limit)} only with recomputation ({other.layout}): {gib(other.total_gib * GIB)}"
    if case.fits:
        return f"fits in {gib(limit)}" + (", but not in the worst case" if memory.upper > limit else "")
    return f"does not fit in {gib(limit)}: it needs {gib(memory.needed)}"


def _time(case: CasePrediction) -> Section:
    time = case.time
    if time is None or not known(time.total):
        return section("  Step time: not known", [])
    low, high = case.step_time_low_s, case.step_time_high_s
    if low is None and case.global_batch and case.samples_per_s_low and case.samples_per_s_high:
        low, high = case.global_batch / case.samples_per_s_high, case.global_batch / case.samples_per_s_low
    return section(
        f"  One step: {duration(time.total)}{_interval(low, high, duration)}", [time_terms(time)], _INDENT
    )


def _interval(low: float | None, high: float | None, written: Callable[[float], str]) -> str:
    return "" if low is None or high is None else f", in 8 of 10 cases {written(low)} to {written(high)}"
