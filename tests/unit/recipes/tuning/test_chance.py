"""The test for chance: exact error probabilities, and intervals that usually contain the true ratio."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.tuning.chance import is_faster, ratio_intervals, sign_flip_p
from tests.support.recorded_layouts import drawing

SIZES = st.lists(st.floats(0.001, 0.5), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("differences", "p"),
    [((), 1.0), ((-0.1,), 0.5), ((-0.1,) * 5, 1 / 32), ((0.1, -0.2), 0.5), ((0.1,) * 3, 1.0), ((0.0,), 1.0)],
)
def test_the_p_value_counts_sign_patterns(differences, p):
    assert sign_flip_p(differences) == p


@given(SIZES)
def test_the_p_value_is_the_part_of_all_patterns(sizes):
    patterns = list(itertools.product((-1, 1), repeat=len(sizes)))
    below = [math.fsum(s * v for s, v in zip(p, sizes, strict=True)) for p in patterns]
    shifted = [-sizes[0], *sizes[1:]]
    expected = sum(value <= math.fsum(shifted) + 1e-12 for value in below) / len(below)
    assert sign_flip_p(shifted) == pytest.approx(expected)


@given(SIZES, st.sampled_from((0.01, 0.05, 0.2)), st.integers(8, 12))
def test_the_share_of_patterns_that_win_at_any_look_is_at_most_alpha(sizes, alpha, planned):
    """Every sign pattern is equally probable if both are equally fast, so this is the error probability."""
    patterns = list(itertools.product((-1, 1), repeat=len(sizes)))
    wins = 0
    for pattern in patterns:
        differences = [sign * size for sign, size in zip(pattern, sizes, strict=True)]
        wins += any(
            is_faster(differences[:look], alpha=alpha, planned=planned) for look in range(1, len(sizes) + 1)
        )
    assert wins / len(patterns) <= alpha + 1e-12


def test_five_rounds_of_ten_are_the_first_that_suffice():
    decisions = [is_faster([-0.1] * rounds, alpha=0.05, planned=10) for rounds in range(1, 11)]
    assert decisions == [False] * 4 + [True] * 6
    assert not any(is_faster([-0.1] * rounds, alpha=0.025, planned=10) for rounds in range(1, 6))


@given(SIZES)
def test_a_slower_or_equal_candidate_never_wins(sizes):
    assert not is_faster(sizes, alpha=0.05, planned=8)
    assert not is_faster([0.0] * len(sizes), alpha=0.05, planned=8)


@given(st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=8))
def test_a_faster_candidate_wins_whenever_a_slower_one_does(differences):
    faster = [value - 0.05 if value < 0 else value for value in differences]
    if is_faster([-abs(value) - 0.001 for value in differences], alpha=0.05, planned=8):
        assert is_faster([-abs(value) - 0.1 for value in faster], alpha=0.05, planned=8)


EXTREMES = st.lists(st.floats(-42.0, 42.0), max_size=10)
"""Logarithms of ratios of times from a nanosecond to 30 years."""


@given(EXTREMES, st.floats(0.001, 0.1))
def test_any_differences_have_a_probability_and_no_winner_in_both_directions(differences, alpha):
    assert 2.0 ** -len(differences) <= sign_flip_p(differences) <= 1
    wins = [is_faster([s * each for each in differences], alpha=alpha, planned=10) for s in (1, -1)]
    assert not all(wins)
    assert not any(wins) or 2.0 ** -len(differences) <= alpha


@given(st.dictionaries(st.sampled_from("abcd"), EXTREMES))
def test_every_interval_is_finite_and_in_order(differences):
    for interval in ratio_intervals(differences).values():
        assert interval is None or 0 <= interval[0] <= interval[1] < math.inf


def test_most_intervals_contain_the_true_ratio():
    draw, inside, total = drawing(3), 0, 0
    for _ in range(200):
        samples = {
            name: [math.log(ratio) + draw.gauss(0.0, 0.05) for _ in range(count)]
            for name, ratio, count in (("a", 0.9, 8), ("b", 1.1, 3), ("c", 1.3, 1))
        }
        for name, ratio in (("a", 0.9), ("b", 1.1), ("c", 1.3)):
            low, high = ratio_intervals(samples)[name]
            total += 1
            inside += low <= ratio <= high
    assert 0.88 <= inside / total <= 0.98


def test_without_repeated_runs_no_interval_is_claimed():
    assert ratio_intervals({"a": [-0.1], "b": [0.2, 0.3], "c": []}) == {"a": None, "b": None, "c": None}
    assert ratio_intervals({"a": [-0.1, -0.2, -0.1], "c": []})["c"] is None


def test_the_interval_is_the_same_each_time_and_encloses_the_ratio():
    samples = {"a": [-0.1, -0.12, -0.08, -0.1]}
    (low, high) = ratio_intervals(samples)["a"]
    assert ratio_intervals(samples)["a"] == (low, high)
    assert low < math.exp(-0.1) < high
