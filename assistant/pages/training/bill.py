"""Show the cost of one training step, term by term: memory of a GPU, time, and the resulting speed."""

from assistant.pages.blocks import Block, Cell, Share, Shares, words
from probes.base.record import Unknown, value_or
from probes.base.units import MIB, count, duration, gib_of_terms, percent
from recipes.planning.reasons import bound_words
from recipes.predict.breakdowns import MEMORY_TERMS, MemoryBreakdown, TimeBreakdown, terms_of

_LEAST_FREE_BYTES = 100 * MIB
"""Smallest amount of free blocks that is worth a line."""
_LEAST_SHARE = 0.0005
"""Smallest fraction of the sum that is shown; a smaller fraction would be written as 0 %."""

_EXPONENT_FROM = 10_000
"""Number from which four digits would be written with an exponent."""


def memory_lines(memory: MemoryBreakdown) -> list[Block | Cell]:
    """Return the peak memory of the GPU that needs most, term by term, their sum, and the worst case."""
    *sizes, total = gib_of_terms([getattr(memory, name) for name in MEMORY_TERMS])
    terms = []
    for name, size in zip(MEMORY_TERMS, sizes, strict=True):
        value = getattr(memory, name)
        if float(size.split()[0]):
            terms.append(Share(name, size, value / memory.total))
        elif name == "gradients" and not value:
            terms.append(Share(f"{name} at the peak", "none"))
    lines: list[Block | Cell] = [Shares((*terms, Share("total", total)))]
    if memory.margin and memory.total - memory.needed >= _LEAST_FREE_BYTES:
        lines.append(words(("Free blocks of the overhead are returned when memory is short.", "dim")))
    if memory.upper > memory.total or memory.margin:
        lines.append(words((f"worst case: {bound_words(memory)}", "dim")))
    return lines


def time_terms(time: TimeBreakdown) -> Shares:
    """Return the time of a step, term by term."""
    total = value_or(time.total, 0.0)
    return Shares(
        tuple(
            Share(name, duration(seconds), seconds / total, is_part)
            for name, seconds, is_part in terms_of(time)
            if total and seconds / total >= _LEAST_SHARE
        )
    )


def _rate(value: float) -> str:
    """Return a rate with three digits, or all digits of a whole number below 100 000."""
    return count(value if value >= 1000 else float(f"{value:.3g}"))


def speed(
    tokens_per_s_per_gpu: float | Unknown | None,
    mfu: float | Unknown | None,
    samples_per_s: float | None = None,
    *,
    per: str = "GPU",
) -> str:
    """Return tokens/s, samples/s and MFU, each only if known; `per` is the word for a rank's device."""
    parts = (
        [f"{_rate(tokens_per_s_per_gpu)} tokens/s per {per}"]
        if isinstance(tokens_per_s_per_gpu, float | int)
        else []
    )
    if samples_per_s is not None:
        samples = f"{samples_per_s:.4g}" if samples_per_s < _EXPONENT_FROM else count(round(samples_per_s))
        parts.append(f"{samples} samples/s in all")
    counted = " (causal attention counted)" if isinstance(tokens_per_s_per_gpu, float | int) else ""
    parts += [f"MFU {percent(mfu)}{counted}"] if isinstance(mfu, float | int) and parts else []
    return ", ".join(parts)
