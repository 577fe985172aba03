"""Show the cost of one training step, term by term: memory of a GPU, time, and the resulting speed."""

from assistant.pages.blocks import Share, Shares
from probes.base.record import Unknown, value_or
from probes.base.units import count, duration, gib, percent
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown, terms_of

_MEMORY_TERMS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead")
_LEAST_SHARE = 0.0005
"""Smallest fraction of the sum that is shown; a smaller fraction would be written as 0 %."""

_EXPONENT_FROM = 10_000
"""Number from which four digits would be written with an exponent."""


def memory_terms(memory: MemoryBreakdown) -> Shares:
    """Return the peak memory of the GPU that needs most, term by term."""
    return Shares(
        tuple(
            Share(name, gib(value), value / memory.total) if value else Share(f"{name} at the peak", "none")
            for name, value in ((name, getattr(memory, name)) for name in _MEMORY_TERMS)
            if name == "gradients" or value >= _LEAST_SHARE * (memory.total or 1)
        )
    )


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
    """Return a rate with at least three digits."""
    return count(value if value >= 1000 else float(f"{value:.3g}"))


def speed(
    tokens_per_s_per_gpu: float | Unknown | None,
    mfu: float | Unknown | None,
    samples_per_s: float | None = None,
    *,
    per: str = "GPU",
) -> str:
    """Return tokens per second and MFU, if they are known; `per` names what a rank trains on."""
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
