"""Decide how often to measure: warm-up until the durations are steady, samples until the median is known.

The module needs no torch.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from typing import Callable, Optional, Sequence

from .protocol import Timing

WINDOW = 8
"""Number of consecutive samples that are tested for a trend; without a trend, the warm-up ends before them.

With fewer samples the confidence interval is never considered narrow.
"""
TREND = 0.01
"""Smallest difference, as a fraction of the median, that is treated as a trend."""
WARMUP_SHARE = 0.3
"""Largest share of the budget for warm-up. After this time sampling begins even if warm-up has not ended."""
CONFIDENCE = 0.95
NARROW = 0.02
"""Largest half width of the confidence interval, divided by the median, at which sampling ends."""
LEAST_SHARE = 0.25
"""Share of the budget before which sampling does not end, even if the interval is already narrow.

A short period does not show how the machine's load varies.
"""
FEWEST_SAMPLES = 3
"""Number of samples that are taken even if they exceed the budget, by a factor of at most OVERRUN."""
MOST_SAMPLES = 200
MOST_REPEATS = 1000
OVERRUN = 3.0

_WARMING, _UNSETTLED, _SAMPLING, _ENDED = 3.0, 2.0, 1.0, 0.0
"""Phases that a rank requests; all ranks use the largest."""


def take_samples(
    sample: Callable[[int], float],
    *,
    budget_s: float,
    sample_s: float = 0.02,
    agree: Callable[[float], float] = float,
    clock: Callable[[], float] = time.monotonic,
) -> Timing:
    """Return seconds per call, one value per sample, within about `budget_s`.

    `sample(n)` makes n calls and returns the seconds per call. A sample has enough calls to fill `sample_s`,
    including untimed parts, or fewer for a small budget, so that short calls exceed the clock's resolution.
    The first calls are warm-up, and so are all samples up to a window without trend. Sampling ends when the
    confidence interval of the median is narrow or when the next sample would exceed the budget. Ranks that
    wait for each other, or load the machine at the same time, need `agree`, which returns the largest of
    their numbers to all ranks, so that all ranks make the same calls. `agree` is called at least once per
    sample, outside of the timed part.
    """
    begun = clock()

    def spent_s() -> float:
        return clock() - begun

    # At least two windows must fit into the time for warm-up, so that its end can be detected.
    sample_s = min(sample_s, WARMUP_SHARE * budget_s / (2 * WINDOW))
    cold_s = sample(1)
    if agree(spent_s()) > OVERRUN * budget_s:
        return Timing([cold_s], 0, 1, budget_spent=True, settled=None)
    repeats, calls = _repeats(sample, sample_s, agree, spent_s, WARMUP_SHARE * budget_s)
    durations_s: list[float] = []
    warming, settled = True, True
    while True:
        before_s = spent_s()
        durations_s.append(sample(repeats))
        step_s = spent_s() - before_s
        if warming:
            wish = _after_warmup(durations_s, spent_s() < WARMUP_SHARE * budget_s)
        else:
            wish = _after_sample(durations_s, spent_s(), step_s, budget_s)
        wish = agree(wish)
        if warming and wish < _WARMING:
            warming, settled = False, wish < _UNSETTLED
            kept = durations_s[-WINDOW:] if settled else []
            calls += repeats * (len(durations_s) - len(kept))
            durations_s = kept
            wish = agree(_after_sample(durations_s, spent_s(), step_s, budget_s))
        if wish == _ENDED:
            break
    late, is_settled = (0, True) if settled else _settled_late(durations_s, agree)
    durations_s = durations_s[late:]
    return Timing(
        durations_s,
        calls + late * repeats,
        repeats,
        half_width(durations_s),
        not is_narrow(durations_s),
        is_settled,
    )


def _settled_late(
    durations_s: Sequence[float], agree: Callable[[float], float]
) -> tuple[int, Optional[bool]]:
    """Return the first sample of the first window without trend, and whether every rank has such a window.

    The second value is None if there are too few samples for a decision.
    """
    last = len(durations_s) - WINDOW
    if last < 0:
        return 0, None
    first = next(
        (begin for begin in range(last + 1) if not has_trend(durations_s[begin : begin + WINDOW])), last + 1
    )
    begin = int(agree(float(first)))
    return (0, False) if begin > last else (begin, True)


def _repeats(
    sample: Callable[[int], float],
    sample_s: float,
    agree: Callable[[float], float],
    spent_s: Callable[[], float],
    most_s: float,
) -> tuple[int, int]:
    """Return how many calls fill `sample_s`, estimated from warm calls, and how many were made so far."""
    repeats, calls = 1, 1
    while sample_s > 0 and repeats < MOST_REPEATS and not agree(float(spent_s() > most_s)):
        before_s = spent_s()
        sample(repeats)
        calls += repeats
        # Flushing a cache before each call can take longer than the call.
        took_s = agree(spent_s() - before_s)
        if took_s >= sample_s / 2:
            break
        repeats = max(repeats + 1, min(MOST_REPEATS, math.ceil(repeats * sample_s / max(took_s, 1e-9))))
    return repeats, calls


def _after_warmup(durations_s: Sequence[float], in_time: bool) -> float:
    if len(durations_s) >= WINDOW and not has_trend(durations_s[-WINDOW:]):
        return _SAMPLING
    return _WARMING if in_time else _UNSETTLED


def _after_sample(durations_s: Sequence[float], spent_s: float, step_s: float, budget_s: float) -> float:
    if len(durations_s) < FEWEST_SAMPLES and (not durations_s or spent_s < OVERRUN * budget_s):
        return _SAMPLING
    if spent_s + step_s > budget_s or len(durations_s) >= MOST_SAMPLES:
        return _ENDED
    return _ENDED if is_narrow(durations_s) and spent_s >= LEAST_SHARE * budget_s else _SAMPLING


def has_trend(durations_s: Sequence[float]) -> bool:
    """Return True if all durations of one half exceed the other half's, and the medians differ by over TREND.

    For eight samples without a trend this has the probability 2 / C(8, 4) = 0.03 (rank-sum test of Wilcoxon).
    """
    middle = len(durations_s) // 2
    first, second = durations_s[:middle], durations_s[middle:]
    apart = min(first) > max(second) or max(first) < min(second)
    difference = abs(statistics.median(first) - statistics.median(second))
    return apart and difference > TREND * statistics.median(durations_s)


def is_narrow(durations_s: Sequence[float]) -> bool:
    """Return True if the median is known well enough."""
    width = half_width(durations_s)
    return len(durations_s) >= WINDOW and width is not None and width <= NARROW


def half_width(durations_s: Sequence[float]) -> float | None:
    """Return half the width of the median's confidence interval, divided by the median.

    The result is None for too few samples, or samples too short for the clock.
    """
    rank, ordered = interval_rank(len(durations_s)), sorted(durations_s)
    median = statistics.median(ordered) if rank else 0.0
    return (ordered[-rank] - ordered[rank - 1]) / 2 / median if median > 0 else None


@functools.lru_cache(maxsize=None)
def interval_rank(count: int) -> int:
    """Return r so that the r-th smallest and r-th largest sample enclose the median with CONFIDENCE.

    The result is valid for any distribution. It is 0 below six samples, for which no r exists. Each sample
    lies below the median with probability 1/2, so the interval misses the median with probability 2 P(fewer
    than r of `count` samples lie below), a binomial (David and Nagaraja, Order Statistics, section 7.1).
    """
    missed, rank = 0.0, 0
    while 2 * rank < count:
        missed += 2 * math.comb(count, rank) / 2**count
        if missed > 1 - CONFIDENCE:
            break
        rank += 1
    return rank
