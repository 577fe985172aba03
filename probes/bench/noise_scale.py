"""Measure the gradient noise scale (McCandlish 2018, arXiv 1812.06162): `noise_scale_sequences`.

The simple noise scale is tr(Sigma) / |G|^2, where Sigma is the covariance of one sequence's gradient and G
the true gradient. Above about this batch size, each further sequence per step helps less (section 2.2). The
noise scale grows while the loss falls: it is near zero at the start, and after a few steps it is a lower
bound (Merrill 2025, arXiv 2505.23971). The result includes the ends of a 90 % interval. The reference
transformer uses synthetic sequences, so its number only demonstrates the method. The user's own step gives a
meaningful number.
"""

import math
import random
from collections.abc import Sequence

from probes.base.record import Record
from probes.base.units import plural
from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome, SampleLine

_BUDGET_S = {"quick": 25.0, "full": 50.0}
_MICRO_BATCH = 1
_ACCUMULATION = 8
"""Number of small batches per large batch and rank; the estimates need batches of very different size."""
_SETTLED = 0.5
"""Share of the steps that are evaluated: the last ones, because the noise scale is near zero at first."""
_RESAMPLES = 1000
_INTERVAL = (0.05, 0.95)


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return a request for the user's own step on one rank, or for the reference model on all ranks.

    The user's step averages gradients over ranks itself, which would hide the gradients of small batches.
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
            title=f"gradient noise scale on {plural(ranks, 'rank')}",
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
    """The estimate in sequences; an end of the interval is infinite if noise dominates the gradient."""

    sequences: float
    low: float
    high: float


def estimate(
    small: Sequence[float], large: Sequence[float], *, small_batch: float, large_batch: float
) -> tuple[list[float], list[float]]:
    """Return for each step the unbiased estimates of |G|^2 and tr(Sigma) from gradients of two batch sizes.

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
    draws = (generator.choices(range(len(signal)), k=len(signal)) for _ in range(_RESAMPLES))
    ratios = sorted(_ratio([signal[step] for step in draw], [noise[step] for step in draw]) for draw in draws)
    # No interpolation of order statistics: neighbours may be a number and infinity.
    low, high = (ratios[int(fraction * (len(ratios) - 1))] for fraction in _INTERVAL)
    return NoiseScale(sequences=_ratio(signal, noise), low=low, high=high)


def _ratio(signal: Sequence[float], noise: Sequence[float]) -> float:
    """Return the ratio, never negative; infinite if no gradient remains."""
    total = math.fsum(signal)
    return max(0.0, math.fsum(noise) / total) if total > 0 else math.inf


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the noise scale of the later steps; rank 0 has the norms of all ranks."""
    answer = next(case_answers(request, lines_by_rank), None)
    norms = _norms(answer.sample) if answer is not None else None
    if answer is None or norms is None:
        return failure_of(request, lines_by_rank)
    small, large, small_batch, large_batch = norms
    scale = noise_scale(*estimate(small, large, small_batch=small_batch, large_batch=large_batch))
    if not math.isfinite(scale.sequences):
        message = (
            f"the noise exceeds the gradient over {plural(len(small), 'step')} of {large_batch:g} sequences: "
            "use larger batches"
        )
        return request.failure("unsupported", message)
    model = {} if "step" in answer.case else {"model": request.model["id"]}
    parameters = {**model, **answer.case, "world_size": request.ranks}
    values = {
        "noise_scale_sequences": scale.sequences,
        "noise_scale_low_sequences": scale.low,
        "noise_scale_high_sequences": scale.high,
    }
    return tuple(
        answer.measurement(metric, "1", (value,), parameters, subject=request.subject)
        for metric, value in values.items()
        if math.isfinite(value)
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
