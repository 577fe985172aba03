"""Statistics of samples: order statistics, an interval for the median, outliers among equals, comparison of
two runs. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

_Z_95 = 1.959964
"""Two-sided 95 % of the normal distribution."""
_EXACT_UP_TO = 40
"""Samples in all up to which the rank test counts every arrangement; beyond, the normal approximation is good
to a percent.
"""
_RESAMPLES = 500
"""Of the bootstrap; the ends of a 95 % interval then move by less than a tenth of its width from seed to
seed.
"""
_MAD_TO_SIGMA = 1.4826
"""1 / Phi^-1(3/4): the median absolute deviation of normal values, times this, is their standard
deviation.
"""
_DEVIATIONS = 3.0
"""Robust standard deviations from which on a member stands apart: 1 of 370 normal values does on one side or
the other.
"""


def quantile(samples: Sequence[float], fraction: float) -> float:
    """Linear interpolation between order statistics; `fraction` from 0 to 1. Raises ValueError without
    samples.
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
    """The two samples between which the median lies with 95 % confidence or more, whatever the distribution.

    The number of samples below the median is binomial (n, 1/2), which gives the ranks (H. A. David, H. N.
    Nagaraja, Order Statistics, section 7.1). Fewer than 6 samples cannot give 95 %: there it is the smallest
    and the largest, and covers the median less often (with 5 in 94 %, with 3 in 75 %, with 1 never). Raises
    ValueError without samples.
    """
    if not samples:
        raise ValueError("an interval needs samples")
    ordered = sorted(samples)
    rank = _lower_rank(len(ordered))
    return ordered[rank], ordered[-1 - rank]


def _lower_rank(count: int) -> int:
    """The largest 0-based rank r with P(at most r samples below the median) <= 2.5 %; 0 where there is
    none.
    """
    if count > _EXACT_UP_TO:
        return max(0, math.floor((count - _Z_95 * math.sqrt(count)) / 2) - 1)
    tail, rank = 0.0, -1
    while (tail := tail + math.comb(count, rank + 1) / 2**count) <= 0.025:
        rank += 1
    return max(0, rank)


class Outlier(NamedTuple):
    """One of several equals that stands apart."""

    name: str
    value: float
    share: float
    """Of the median: 0.6 is 40 % less."""


def outliers(
    values: Mapping[str, float], *, worse: Literal["low", "high"], least_difference: float = 0.05
) -> tuple[Outlier, ...]:
    """The members that are worse than their equals, worst first.

    A member counts where it differs from the median of all by more than `least_difference` of it, and by more
    than three robust standard deviations (median absolute deviation), so that equals which scatter widely
    accuse nobody. Both are unmoved by the bad members as long as these are fewer than half, from 3 members to
    any number. Of two that differ nobody can say which is the bad one, and neither where half of them are
    slow: then nobody is named (see `spread`).
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
    return tuple(sorted(apart, key=lambda one: sign * one.value))


def spread(values: Mapping[str, float]) -> float:
    """Largest minus smallest over the median: how unlike members are that should be equal. 0 for fewer than
    two.
    """
    if len(values) < 2:
        return 0.0
    usual = quantile(list(values.values()), 0.5)
    return (max(values.values()) - min(values.values())) / abs(usual) if usual else 0.0


class Change(NamedTuple):
    """What lies between two runs of the same thing."""

    ratio: float
    """Median after over median before."""
    low: float
    high: float
    """95 % bootstrap interval of the ratio."""
    p_value: float
    """How often chance alone gives runs that differ as much."""

    @property
    def is_significant(self) -> bool:
        """At the 5 % level. Three samples against three never are."""
        return self.p_value < 0.05


def compare(before: Sequence[float], after: Sequence[float], *, seed: int = 0) -> Change:
    """Whether two sets of positive samples differ, and by how much.

    The p-value is that of the two-sided Mann-Whitney U test: exact over all arrangements of the ranks, ties
    included, for up to 40 samples in all, else by the normal approximation with the correction for ties (E.
    L. Lehmann, Nonparametrics, chapter 1). The interval is the percentile bootstrap of the ratio of medians
    with a fixed seed, so that one input has one answer. Raises ValueError where a side has no samples or a
    sample is not a positive number.
    """
    if not before or not after:
        raise ValueError("a comparison needs samples on both sides")
    if not all(value > 0 and math.isfinite(value) for value in (*before, *after)):
        raise ValueError("a comparison needs positive samples")
    middle = quantile(before, 0.5)
    low, high = _ratio_interval(before, after, seed)
    return Change(quantile(after, 0.5) / middle, low, high, _rank_test(before, after))


def _ratio_interval(before: Sequence[float], after: Sequence[float], seed: int) -> tuple[float, float]:
    import random  # noqa: PLC0415 - it loads much, and a quick check measures nothing

    draw = random.Random(seed)  # noqa: S311 - resampling, no secret
    ratios = [
        quantile(draw.choices(after, k=len(after)), 0.5) / quantile(draw.choices(before, k=len(before)), 0.5)
        for _ in range(_RESAMPLES)
    ]
    return quantile(ratios, 0.025), quantile(ratios, 0.975)


def _rank_test(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p-value of the rank sum of `one`."""
    ranks = _doubled_ranks([*one, *other])
    observed, count, total = sum(ranks[: len(one)]), len(one), len(ranks)
    expected = count * (total + 1)  # doubled, as the ranks are
    distance = abs(observed - expected)
    if distance == 0:
        return 1.0
    if total <= _EXACT_UP_TO:
        sums = _sums_of_subsets(ranks, count)
        apart = sum(ways for value, ways in sums.items() if abs(value - expected) >= distance)
        return apart / math.comb(total, count)
    # The variance of a sum of `count` of these ranks, drawn without putting back; equal ranks are in it.
    variance = (
        count * (total - count) / (total * (total - 1)) * sum((rank - (total + 1)) ** 2 for rank in ranks)
    )
    if variance == 0:
        return 1.0
    return math.erfc(max(0.0, distance - 1) / math.sqrt(2 * variance))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value from 1, equal values sharing their mean rank: whole numbers all the
    same.
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
    """How many subsets of `count` ranks have each sum."""
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(count)]
    for rank in ranks:
        for size in range(count, 0, -1):
            grown = ways[size]
            for value, number in ways[size - 1].items():
                grown[value + rank] = grown.get(value + rank, 0) + number
    return ways[count]
