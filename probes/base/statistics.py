"""Statistics of samples: order statistics, intervals of the median, outliers, comparison of two runs.

The functions are pure.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

_Z_95 = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""
_EXACT_UP_TO = 40
"""Largest number of samples for which intervals and the rank test use exact distributions.

For more samples the normal approximation is accurate to one percent.
"""
_RESAMPLES = 500
"""Number of bootstrap resamples.

With other seeds, the ends of a 95 % interval then move by less than a tenth of its width.
"""
_MAD_TO_SIGMA = 1.4826
"""Standard deviation of normal values divided by their median absolute deviation: 1 / Phi^-1(3/4)."""
_DEVIATIONS = 3.0
"""Robust standard deviations beyond which a member is an outlier.

Only the worse side counts: 1 of 740 normal values lies that far on one side.
"""


def quantile(samples: Sequence[float], fraction: float) -> float:
    """Return the quantile by linear interpolation between order statistics; `fraction` is from 0 to 1.

    Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("a quantile needs samples")
    ordered = sorted(samples)
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    if ordered[low] == ordered[high]:
        return ordered[low]
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def confidence_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return two samples that enclose the median with 95 % confidence or more, for any distribution.

    The number of samples below the median is binomial (n, 1/2), which gives the ranks (H. A. David, H. N.
    Nagaraja, Order Statistics, section 7.1). Fewer than 6 samples cannot give 95 %: then the result is the
    smallest and the largest sample, which enclose the median less often (5 samples: 94 %, 3 samples: 75 %, 1
    sample: never). Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("an interval needs samples")
    ordered = sorted(samples)
    rank = _lower_rank(len(ordered))
    return ordered[rank], ordered[-1 - rank]


def _lower_rank(count: int) -> int:
    """Return the largest rank r with P(at most r samples below the median) <= 2.5 %; 0 if there is none."""
    if count > _EXACT_UP_TO:
        return math.floor((count - _Z_95 * math.sqrt(count)) / 2) - 1
    tail, rank = 0.0, -1
    while (tail := tail + math.comb(count, rank + 1) / 2**count) <= 0.025:
        rank += 1
    return max(0, rank)


class Outlier(NamedTuple):
    """A member of a group that differs from the others."""

    name: str
    value: float
    share: float
    """Value divided by the median: 0.6 means 40 % less."""


def outliers(
    values: Mapping[str, float], *, worse: Literal["low", "high"], least_difference: float = 0.05
) -> tuple[Outlier, ...]:
    """Return the members that are worse than the others, worst first.

    A member is worse if it differs from the median of all by more than `least_difference` (a fraction of the
    median) and by more than three robust standard deviations (from the median absolute deviation), so that no
    member of a widely scattered group is reported. If fewer than half of the members are bad, the median
    stays within the range of the good members, however bad the others are. If there are only two members, or
    half of the members are slow, the bad members cannot be identified (see `spread`).
    """
    if len(values) < 3:
        return ()
    usual = quantile(list(values.values()), 0.5)
    deviation = quantile([abs(value - usual) for value in values.values()], 0.5)
    limit = max(least_difference * abs(usual), _DEVIATIONS * _MAD_TO_SIGMA * deviation)
    sign = 1.0 if worse == "low" else -1.0
    apart = [
        Outlier(name, value, value / usual if usual else math.inf)
        for name, value in values.items()
        if sign * (usual - value) > limit
    ]
    return tuple(sorted(apart, key=lambda outlier: sign * outlier.value))


def spread(values: Mapping[str, float]) -> float:
    """Return (largest - smallest value) / median; 0 for fewer than two members or a median of 0."""
    if len(values) < 2:
        return 0.0
    usual = quantile(list(values.values()), 0.5)
    return (max(values.values()) - min(values.values())) / abs(usual) if usual else 0.0


class Change(NamedTuple):
    """The difference between two runs of the same measurement."""

    ratio: float
    """Median after divided by median before."""
    low: float
    high: float
    """Ends of the 95 % bootstrap interval of the ratio."""
    p_value: float
    """Probability that two equal runs differ by chance at least as much as these two runs."""

    @property
    def is_significant(self) -> bool:
        """Return whether the difference is significant at the 5 % level.

        Two runs of three samples never differ significantly.
        """
        return self.p_value < 0.05


def compare(before: Sequence[float], after: Sequence[float], *, seed: int = 0) -> Change:
    """Return the change between two sets of positive samples.

    The p-value is that of the two-sided Mann-Whitney U test: exact over all arrangements of the ranks, with
    ties, for up to 40 samples in total, otherwise by the normal approximation with the correction for ties
    (E. L. Lehmann, Nonparametrics, chapter 1). The interval is the percentile bootstrap of the ratio of
    medians with a fixed seed, so that equal input gives equal output. Raises ValueError if a side has no
    samples or a sample is not a positive number.
    """
    if not before or not after:
        raise ValueError("a comparison needs samples on both sides")
    if not all(value > 0 and math.isfinite(value) for value in (*before, *after)):
        raise ValueError("a comparison needs positive samples")
    middle = quantile(before, 0.5)
    low, high = _ratio_interval(before, after, seed)
    return Change(quantile(after, 0.5) / middle, low, high, _rank_test(before, after))


def _ratio_interval(before: Sequence[float], after: Sequence[float], seed: int) -> tuple[float, float]:
    import random  # noqa: PLC0415 - slow to load, and a quick check measures nothing

    draw = random.Random(seed)  # noqa: S311 - resampling, no secret
    ratios = [
        quantile(draw.choices(after, k=len(after)), 0.5) / quantile(draw.choices(before, k=len(before)), 0.5)
        for _ in range(_RESAMPLES)
    ]
    return quantile(ratios, 0.025), quantile(ratios, 0.975)


def _rank_test(first: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of the rank sum of `first`."""
    ranks = _doubled_ranks([*first, *other])
    observed, count, total = sum(ranks[: len(first)]), len(first), len(ranks)
    expected = count * (total + 1)  # doubled, as the ranks are
    distance = abs(observed - expected)
    if distance == 0:
        return 1.0
    if total <= _EXACT_UP_TO:
        sums = _sums_of_subsets(ranks, count)
        apart = sum(ways for value, ways in sums.items() if abs(value - expected) >= distance)
        return apart / math.comb(total, count)
    # Variance of the sum of `count` ranks drawn without replacement, corrected for ties.
    variance = (
        count * (total - count) / (total * (total - 1)) * sum((rank - (total + 1)) ** 2 for rank in ranks)
    )
    if variance == 0:
        return 1.0
    return math.erfc((distance - 1) / math.sqrt(2 * variance))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; the ranks start at 1.

    Equal values share their mean rank, so doubling avoids fractions.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for position in order[first : last + 1]:
            ranks[position] = first + last + 2
        first = last + 1
    return ranks


def _sums_of_subsets(ranks: Sequence[int], count: int) -> dict[int, int]:
    """Return the number of subsets of `count` ranks for each sum of ranks."""
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(count)]
    for rank in ranks:
        for size in range(count, 0, -1):
            grown = ways[size]
            for value, number in ways[size - 1].items():
                grown[value + rank] = grown.get(value + rank, 0) + number
    return ways[count]
