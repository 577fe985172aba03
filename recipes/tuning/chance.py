"""Test whether a candidate is faster than the baseline by more than chance.

Samples are differences of pairs: in every round, candidate and baseline run once each, and the difference is
the logarithm of the ratio of their step times. If the candidate equals the baseline, each difference is as
probable as its negative (R. A. Fisher, The Design of Experiments, 1935, section 21). This needs neither a
known noise nor a normal distribution.
"""

import math
import random
from collections.abc import Mapping, Sequence

from probes.base.statistics import quantile

_RESAMPLES = 2000
"""Number of resamples of an interval; the ends then vary by about 2 % of the width."""
_LEAST_RESIDUALS = 3
"""Smallest number of deviations from which an interval is computed."""


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the share of all sign patterns whose sum is at most the observed sum (one-sided, exact).

    The result is 1 without differences, and at least 2**-n for n differences.
    """
    observed = math.fsum(differences)
    sums = [0.0]
    for size in map(abs, differences):
        sums = [value - size for value in sums] + [value + size for value in sums]
    tolerance = 1e-12 * max(1.0, *map(abs, differences), 0.0)
    return sum(value <= observed + tolerance for value in sums) / len(sums)


def is_faster(differences: Sequence[float], *, alpha: float, planned: int) -> bool:
    """Return whether the differences are below zero by more than chance, at this look or an earlier look.

    The test is repeated after each round, with at most `planned` rounds. The error probability that the first
    m rounds may spend is `alpha` times the square root of m / planned, and a sign pattern that one look has
    rejected stays rejected. Therefore the probability to reject equal candidates at any look is at most
    `alpha` (group sequential test with a spending function: K. K. G. Lan, D. L. DeMets, Biometrika 70, 1983).
    With alpha = 0.05 and ten planned rounds, a candidate that is faster in every round wins after five.
    """
    sums, rejected = [0.0], [False]
    for look, difference in enumerate(differences, 1):
        size = abs(difference)
        # The pattern of index i has a minus sign where the bit of the round is 0.
        sums = [value - size for value in sums] + [value + size for value in sums]
        rejected += rejected
        spent = alpha * math.sqrt(look / max(look, planned))
        _reject_smallest(sums, rejected, math.floor(spent * len(sums) + 1e-9) - sum(rejected))
    observed = sum(1 << place for place, difference in enumerate(differences) if difference >= 0)
    return rejected[observed]


def _reject_smallest(sums: list[float], rejected: list[bool], allowed: int) -> None:
    """Mark the `allowed` smallest sums that are not marked yet; of equal sums, mark either all or none."""
    if allowed <= 0:
        return
    order = sorted((value, index) for index, value in enumerate(sums) if not rejected[index])
    limit = order[allowed][0] if allowed < len(order) else math.inf
    tolerance = 1e-12 * max(1.0, abs(order[0][0]))
    for value, index in order[:allowed]:
        if value < limit - tolerance:
            rejected[index] = True


def ratio_intervals(
    differences: Mapping[str, Sequence[float]], *, seed: int = 0
) -> dict[str, tuple[float, float] | None]:
    """Return the 95 % interval of each candidate's ratio of step times to the baseline.

    `differences` has the logarithms of the ratios by candidate. The deviations of all candidates from their
    own means are pooled, because the noise from run to run is a property of the machine; the interval of a
    mean of n differences comes from means of n deviations drawn from the pool (residual bootstrap: B. Efron,
    R. Tibshirani, An Introduction to the Bootstrap, 1993, section 9.4). Therefore a candidate that ran
    only once has an interval, too. The value is None for a candidate without differences, and for all
    candidates if fewer than three deviations are known.
    """
    pool = [
        (value - math.fsum(values) / len(values)) * math.sqrt(len(values) / (len(values) - 1))
        for values in differences.values()
        if len(values) > 1
        for value in values
    ]
    if len(pool) < _LEAST_RESIDUALS:
        return dict.fromkeys(differences)
    draw = random.Random(seed)  # noqa: S311 - resampling, no secret
    intervals: dict[str, tuple[float, float] | None] = {}
    by_count: dict[int, tuple[float, float]] = {}
    for name, values in differences.items():
        if not values:
            intervals[name] = None
            continue
        count = len(values)
        if count not in by_count:
            means = [math.fsum(draw.choices(pool, k=count)) / count for _ in range(_RESAMPLES)]
            by_count[count] = (quantile(means, 0.025), quantile(means, 0.975))
        mean, (low, high) = math.fsum(values) / count, by_count[count]
        # The deviation of the mean is subtracted, so the upper end of the deviations gives the lower end.
        intervals[name] = (math.exp(mean - high), math.exp(mean - low))
    return intervals
