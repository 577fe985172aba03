"""Gradient noise scale (McCandlish 2018, arXiv 1812.06162): `noise_scale_sequences`, with the ends of its 90
% interval.

The simple noise scale is tr(Sigma) / |G|^2, with the covariance Sigma of one sequence's gradient and the true
gradient G; it is about the batch at which more sequences per step begin to bring less (section 2.2). It grows
while the loss falls: after a few steps it is a lower bound, and for a start near zero (Merrill 2025, arXiv
2505.23971). On the reference transformer the sequences are synthetic, so that the number rehearses the
method; your own step gives yours.
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
"""Small batches per large one and rank: the estimates need batches that differ much."""
_SETTLED = 0.5
"""The later part of the steps counts: in the first ones the gradient is large and the noise scale near
zero.
"""
_RESAMPLES = 1000
_INTERVAL = (0.05, 0.95)


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """The user's own step on one rank (its own averaging over ranks would hide the small batches), or the
    reference on all.
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
    """In sequences; the ends of the interval are infinite where the gradient drowns in its noise."""

    sequences: float
    low: float
    high: float


def estimate(
    small: Sequence[float], large: Sequence[float], *, small_batch: float, large_batch: float
) -> tuple[list[float], list[float]]:
    """Per step the unbiased estimates of |G|^2 and of tr(Sigma) from the squared norms of gradients of two
    batch sizes.

    Appendix A.1: E|G_B|^2 = |G|^2 + tr(Sigma) / B, solved for both unknowns.
    """
    signal = [
        (large_batch * b - small_batch * s) / (large_batch - small_batch)
        for s, b in zip(small, large, strict=True)
    ]
    noise = [(s - b) / (1 / small_batch - 1 / large_batch) for s, b in zip(small, large, strict=True)]
    return signal, noise


def noise_scale(signal: Sequence[float], noise: Sequence[float]) -> NoiseScale:
    """The ratio of the averages over steps, since one step's ratio is biased, and its interval by resampling
    the steps.
    """
    generator = random.Random(0)  # noqa: S311 - resampling, the same each time
    steps = range(len(signal))
    ratios = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(steps, k=len(signal))
        ratios.append(_ratio([signal[step] for step in drawn], [noise[step] for step in drawn]))
    # Order statistics as they are: between a number and infinity nothing can be interpolated.
    ordered = sorted(ratios)
    low, high = (ordered[int(fraction * (len(ordered) - 1))] for fraction in _INTERVAL)
    return NoiseScale(sequences=_ratio(signal, noise), low=low, high=high)


def _ratio(signal: Sequence[float], noise: Sequence[float]) -> float:
    """Infinite where no gradient is left; never negative."""
    total = math.fsum(signal)
    return max(0.0, math.fsum(noise) / total) if total > 0 else math.inf


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The noise scale of the later steps; rank 0 has the norms of all ranks."""
    lines = lines_by_rank.get(0, ())
    start = start_of(lines)
    sample = next(iter(samples_of(request, lines)), None)
    if start is None or sample is None or not (found := _norms(sample)):
        return failure_of(request, lines_by_rank)
    small, large, small_batch, large_batch = found
    scale = noise_scale(*estimate(small, large, small_batch=small_batch, large_batch=large_batch))
    if not math.isfinite(scale.sequences):
        message = f"the gradient drowns in its noise over {len(small)} steps of {large_batch:g} sequences: take larger batches"
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
    """Squared norms of the later steps and the two batch sizes; None for what no worker writes."""
    small, large = (list(sample.series.get(f"{name}_squared_norm", ())) for name in ("small", "large"))
    small_batch, large_batch = (sample.figures.get(f"{name}_batch", 0.0) for name in ("small", "large"))
    first = int(len(small) * (1 - _SETTLED))
    sound = len(small) == len(large) >= 2 and 0 < small_batch < large_batch < math.inf
    if not sound or not all(0 <= norm < math.inf for norm in (*small, *large)):
        return None
    return small[first:], large[first:], small_batch, large_batch
