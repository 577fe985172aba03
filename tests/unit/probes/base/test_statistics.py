"""Test the module `statistics` against definitions and published tables, for invariances, and for its rate
of false alarms.
"""

# ruff: noqa: S311 - draws for tests, no secrets

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.statistics import compare, confidence_interval, outliers, quantile, spread

positive = st.floats(0.1, 1e12, allow_nan=False)
several = st.lists(positive, min_size=1, max_size=30)


@given(several, st.floats(0, 1))
def test_a_quantile_lies_within_the_samples(samples: list[float], fraction: float) -> None:
    assert min(samples) <= quantile(samples, fraction) <= max(samples)


@given(several)
def test_the_interval_holds_the_sample_median(samples: list[float]) -> None:
    low, high = confidence_interval(samples)
    assert low <= quantile(samples, 0.5) <= high
    assert {low, high} <= set(samples)
    if len(samples) < 9:
        assert (low, high) == (min(samples), max(samples))


@pytest.mark.parametrize(("count", "low", "high"), [(9, 2, 8), (20, 6, 15), (30, 10, 21), (100, 40, 61)])
def test_the_interval_has_the_ranks_of_the_tables(count: int, low: int, high: int) -> None:
    """Compare with W. J. Conover, Practical Nonparametric Statistics, table A3 and its large-sample rule."""
    assert confidence_interval([float(number) for number in range(1, count + 1)]) == (low, high)


@pytest.mark.parametrize("count", [6, 12, 41, 80])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    draw = random.Random(count)
    hits = 0
    for _ in range(600):
        low, high = confidence_interval([draw.expovariate(1.0) for _ in range(count)])
        hits += low <= 0.6931 <= high
    assert hits / 600 > 0.93


def equals(count: int, noise: float, seed: int) -> dict[str, float]:
    draw = random.Random(seed)
    return {f"GPU{index}": 100.0 * (1 + noise * draw.uniform(-1, 1)) for index in range(count)}


@given(st.integers(3, 1000), st.floats(0, 0.02), st.integers(0, 99))
@settings(max_examples=60)
def test_one_slow_member_is_detected_and_no_other(count: int, noise: float, seed: int) -> None:
    values = equals(count, noise, seed)
    assert outliers(values, worse="low") == ()
    slow = {**values, "GPU1": 70.0}
    assert [outlier.name for outlier in outliers(slow, worse="low")] == ["GPU1"]
    assert outliers(slow, worse="high") == ()
    (late,) = outliers({**values, "GPU0": 150.0}, worse="high")
    assert late.name == "GPU0"
    assert late.share == pytest.approx(1.5, rel=0.05)


def test_no_member_is_named_without_a_majority() -> None:
    assert outliers({"a": 100.0, "b": 50.0}, worse="low") == ()
    assert outliers({"a": 100.0, "b": 100.0, "c": 50.0, "d": 50.0}, worse="low") == ()
    assert outliers({"a": 100.0, "b": 80.0, "c": 60.0}, worse="low") == ()
    assert outliers({"a": 1.0}, worse="low") == outliers({}, worse="low") == ()
    assert spread({"a": 100.0, "b": 50.0}) == pytest.approx(2 / 3)
    assert spread({"a": 5.0}) == 0.0


def test_several_slow_members_are_listed_worst_first() -> None:
    values = {**equals(8, 0.01, 1), "GPU3": 60.0, "GPU6": 40.0, "GPU7": 93.9}
    assert [outlier.name for outlier in outliers(values, worse="low")] == ["GPU6", "GPU3", "GPU7"]


@given(several, several)
@settings(max_examples=60, deadline=None)
def test_a_comparison_turns_with_its_sides(before: list[float], after: list[float]) -> None:
    there, back = compare(before, after), compare(after, before)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert 0 < there.p_value <= 1
    assert compare(before, after) == there


@given(several, several, st.sampled_from((1e-9, 0.5, 4.0, 1e9)))
@settings(max_examples=40, deadline=None)
def test_the_unit_changes_nothing(before: list[float], after: list[float], factor: float) -> None:
    scaled = compare([value * factor for value in before], [value * factor for value in after])
    plain = compare(before, after)
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert (scaled.low, scaled.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


@given(several)
@settings(max_examples=40, deadline=None)
def test_nothing_changed(samples: list[float]) -> None:
    change = compare(samples, samples)
    assert (change.ratio, change.p_value) == (1.0, 1.0)
    assert change.low <= 1.0 <= change.high


@pytest.mark.parametrize(("sizes", "most"), [((8, 8), 0.075), ((5, 30), 0.075), ((40, 40), 0.075)])
def test_chance_is_called_a_change_no_more_often_than_it_may(sizes: tuple[int, int], most: float) -> None:
    draw = random.Random(7)
    alarms = 0
    for _ in range(400):
        before, after = ([draw.lognormvariate(0, 0.1) for _ in range(size)] for size in sizes)
        alarms += compare(before, after).is_significant
    assert alarms / 400 <= most


@pytest.mark.parametrize("count", [6, 25])
def test_a_change_of_a_tenth_is_found_in_quiet_samples(count: int) -> None:
    draw = random.Random(3)
    before = [1.0 + draw.gauss(0, 0.02) for _ in range(count)]
    change = compare(before, [0.9 * value for value in before])
    assert change.is_significant
    assert change.low < change.ratio < change.high < 1.0


def test_the_exact_test_counts_every_arrangement() -> None:
    """Compare with the definition: all ways to deal the pooled samples, with ties."""
    first, other = [1.0, 2.0, 2.0, 5.0], [2.0, 3.0, 7.0, 8.0, 8.0]
    pooled = first + other

    def statistic(picked: tuple[int, ...]) -> float:
        remaining = [pooled[index] for index in range(len(pooled)) if index not in picked]
        wins = sum(
            (pooled[index] > value) + (pooled[index] == value) / 2 for index in picked for value in remaining
        )
        return abs(wins - len(picked) * len(remaining) / 2)

    deals = list(itertools.combinations(range(len(pooled)), len(first)))
    observed = statistic(tuple(range(len(first))))
    expected = sum(statistic(deal) >= observed for deal in deals) / len(deals)
    assert compare(first, other).p_value == pytest.approx(expected)


def test_small_runs_prove_nothing_and_wrong_ones_are_refused() -> None:
    assert not compare([1.0, 1.1, 0.9], [5.0, 5.1, 4.9]).is_significant
    for before, after in (([], [1.0]), ([1.0], []), ([1.0], [0.0]), ([float("nan")], [1.0])):
        with pytest.raises(ValueError, match="samples"):
            compare(before, after)
    with pytest.raises(ValueError, match="samples"):
        confidence_interval([])


def test_a_large_comparison_agrees_with_the_normal_approximation() -> None:
    """1 to 21 against 11 to 31 (21 samples each): U = 60.5, mean 220.5, variance 1578.84 with 11 ties.

    z = (|60.5 - 220.5| - 0.5) / 39.735 = 4.0141, so p = 5.967e-5.
    """
    change = compare([float(n) for n in range(1, 22)], [float(n) for n in range(11, 32)])
    assert change.p_value == pytest.approx(5.967e-5, rel=0.001)
    assert compare([1.0] * 30, [1.0] * 30).p_value == 1.0


@pytest.mark.parametrize(
    ("values", "worse", "bad"),
    [
        ({"a": 100.0, "b": 100.0, "c": 95.0}, "low", []),
        ({"a": 100.0, "b": 100.0, "c": 94.9}, "low", ["c"]),
        ({"a": 100.0, "b": 100.0, "c": 105.0}, "high", []),
        ({"a": 100.0, "b": 100.0, "c": 105.1}, "high", ["c"]),
        ({"a": 0.0, "b": 0.0, "c": 0.1}, "high", ["c"]),
        # The median deviation is 2, so the limit is 3 x 1.4826 x 2 = 8.9 below the median of 100.
        ({"a": 98.0, "b": 100.0, "c": 102.0, "d": 103.0, "e": 91.2}, "low", []),
        ({"a": 98.0, "b": 100.0, "c": 102.0, "d": 103.0, "e": 91.0}, "low", ["e"]),
    ],
)
def test_an_outlier_is_beyond_both_limits(values: dict[str, float], worse: str, bad: list[str]) -> None:
    assert [outlier.name for outlier in outliers(values, worse=worse)] == bad


def test_an_outlier_of_a_group_that_does_nothing_has_no_share() -> None:
    assert outliers({"a": 0.0, "b": 0.0, "c": 4.0}, worse="high")[0].share == float("inf")
    assert spread({"a": -1.0, "b": 0.0, "c": 1.0}) == 0.0
    assert spread({"a": -6.0, "b": -4.0}) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("samples", "fraction", "value"),
    [([4.0, 1.0, 2.0], 0.5, 2.0), ([1.0, 2.0], 0.25, 1.25), ([1.0, 2.0, 4.0], 0.75, 3.0), ([5.0], 1.0, 5.0)],
)
def test_a_quantile_lies_between_its_neighbours(samples: list[float], fraction: float, value: float) -> None:
    assert quantile(samples, fraction) == value


def test_a_difference_is_significant_below_five_percent() -> None:
    """Four against four samples that do not overlap: 2 of 70 arrangements are as extreme, p = 0.0286."""
    change = compare([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
    assert change.p_value == pytest.approx(2 / 70)
    assert change.is_significant
    assert not change._replace(p_value=0.05).is_significant
