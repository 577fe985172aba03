"""Measure the gradient noise scale (McCandlish 2018, arXiv 1812.06162): `noise_scale_sequences`.

The simple noise scale is tr(Sigma) / |G|^2, with the covariance Sigma of one sequence's gradient and the true
gradient G. It is about the batch size above which more sequences per step bring less (section 2.2). It grows
while the loss falls: after a few steps it is a lower bound, and near zero at the start (Merrill 2025, arXiv
2505.23971). The result includes the ends of a 90 % interval. The reference transformer uses synthetic
sequences, so that its number only demonstrates the method; the user's own step gives a real number.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from probes.base.record import Record
from probes.bench.answers import failure_of, measurement, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.worker_answers import LinesByRank, SampleLine
from probes.facts.measurements import BenchFailure, Measurement

_BUDGET_S = {"quick": 25.0, "full": 50.0}
_MICRO_BATCH = 1
_ACCUMULATION = 8
"""Small batches per large batch and rank; the estimates need batches of very different size."""
_SETTLED = 0.5
"""Share of the steps that counts, from the end: the noise scale is near zero in the first steps."""
_RESAMPLES = 1000
_INTERVAL = (0.05, 0.95)


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return a request for the user's own step on one rank, or for the reference on all ranks.

    The own step averages gradients over ranks itself, which would hide the small batches.
    """
    model, settings = context.model, context.settings
    case: Case = {
        "micro_batch": _MICRO_BATCH,
        "accumulation": _ACCUMULATION,
        "sequence_length": model.shape["sequence_length"],
        "precision": model.precision,
    }
    if settings.step:
        case = {"step": settings.step, "accumulation": _ACCUMULATION}
    ranks = 1 if settings.step else context.ranks_per_node
    return (
        BenchRequest(
            bench_id="noise-scale",
            title=f"gradient noise scale on {ranks} rank{'s' if ranks > 1 else ''}",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.suite],
            cases=(case,),
            model=model.shape,
            settings={"folder": settings.folder},
        ),
    )


class NoiseScale(Record, kw_only=True):
    """Estimate in sequences; ends of the interval are infinite if noise dominates the gradient."""

    sequences: float
    low: float
    high: float


def estimate(
    small: Sequence[float], large: Sequence[float], *, small_batch: float, large_batch: float
) -> tuple[list[float], list[float]]:
    """Return per step the unbiased estimates of |G|^2 and tr(Sigma) from gradients of two batch sizes.

    `small` and `large` are squared norms. Appendix A.1: E|G_B|^2 = |G|^2 + tr(Sigma) / B, solved for both
    unknowns.
    """
    signal = [
        (large_batch * b - small_batch * s) / (large_batch - small_batch)
        for s, b in zip(small, large, strict=True)
    ]
    noise = [(s - b) / (1 / small_batch - 1 / large_batch) for s, b in zip(small, large, strict=True)]
    return signal, noise


def noise_scale(signal: Sequence[float], noise: Sequence[float]) -> NoiseScale:
    """Return the ratio of the averages over steps, and its interval by resampling the steps.

    The average of the ratios would be biased.
    """
    generator = random.Random(0)  # noqa: S311 - resampling, the same each time
    steps = range(len(signal))
    ratios = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(steps, k=len(signal))
        ratios.append(_ratio([signal[step] for step in drawn], [noise[step] for step in drawn]))
    # No interpolation of order statistics: neighbours may be a number and infinity.
    ordered = sorted(ratios)
    low, high = (ordered[int(fraction * (len(ordered) - 1))] for fraction in _INTERVAL)
    return NoiseScale(sequences=_ratio(signal, noise), low=low, high=high)


def _ratio(signal: Sequence[float], noise: Sequence[float]) -> float:
    """Return the ratio, never negative; infinite if no gradient remains."""
    total = math.fsum(signal)
    return max(0.0, math.fsum(noise) / total) if total > 0 else math.inf


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the noise scale of the later steps; rank 0 has the norms of all ranks."""
    lines = lines_by_rank.get(0, ())
    start = start_of(lines)
    sample = next(iter(samples_of(request, lines)), None)
    if start is None or sample is None or not (norms := _norms(sample)):
        return failure_of(request, lines_by_rank)
    small, large, small_batch, large_batch = norms
    scale = noise_scale(*estimate(small, large, small_batch=small_batch, large_batch=large_batch))
    if not math.isfinite(scale.sequences):
        message = (
            f"the noise exceeds the gradient over {len(small)} steps of {large_batch:g} sequences: "
            "use larger batches"
        )
        return request.failure("unsupported", message)
    model = {} if "step" in sample.case else {"model": request.model["id"]}
    parameters = {**model, **sample.case, "world_size": request.ranks}
    ends = {"noise_scale_low_sequences": scale.low, "noise_scale_high_sequences": scale.high}
    values = {
        "noise_scale_sequences": scale.sequences,
        **{name: end for name, end in ends.items() if math.isfinite(end)},
    }
    return tuple(
        measurement(request, start, parameters, metric, unit="1", samples=(value,))
        for metric, value in values.items()
    )


def _norms(sample: SampleLine) -> tuple[list[float], list[float], float, float] | None:
    """Return squared norms of the later steps and the two batch sizes; None for invalid samples."""
    small, large = (list(sample.series.get(f"{name}_squared_norm", ())) for name in ("small", "large"))
    small_batch, large_batch = (sample.figures.get(f"{name}_batch", 0.0) for name in ("small", "large"))
    first = int(len(small) * (1 - _SETTLED))
    sound = len(small) == len(large) >= 2 and 0 < small_batch < large_batch < math.inf
    if not sound or not all(0 <= norm < math.inf for norm in (*small, *large)):
        return None
    return small[first:], large[first:], small_batch, large_batch
