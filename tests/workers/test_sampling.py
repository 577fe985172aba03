"""Test when the worker stops its warm-up and its samples.

The calls have known durations on a clock of their own; torch is not needed.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.workers.rigtune_worker.protocol import Timing
from probes.workers.rigtune_worker.sampling import (
    CONFIDENCE,
    FEWEST_SAMPLES,
    MOST_SAMPLES,
    OVERRUN,
    has_trend,
    interval_rank,
    take_samples,
)


class Calls:
    """Calls whose n-th takes `duration_s(n)`, and the clock that they move."""

    def __init__(self, duration_s: Callable[[int], float]) -> None:
        self.duration_s, self.now_s, self.made = duration_s, 100.0, 0

    def sample(self, repeats: int) -> float:
        took_s = math.fsum(self.duration_s(self.made + number) for number in range(repeats))
        self.made, self.now_s = self.made + repeats, self.now_s + took_s
        return took_s / repeats

    def timed(
        self, budget_s: float, sample_s: float = 0.02, agree: Callable[[float], float] = float
    ) -> Timing:
        return take_samples(
            self.sample, budget_s=budget_s, sample_s=sample_s, agree=agree, clock=lambda: self.now_s
        )


def test_warm_up_lasts_as_long_as_the_calls_become_faster():
    timing = Calls(lambda n: 0.001 * (1 + 2 * math.exp(-n / 150))).timed(budget_s=10)
    assert timing.warmup_calls > 300
    assert timing.settled
    assert max(timing.durations_s) < 0.0011


def test_steady_calls_need_little_warm_up_and_few_samples():
    calls = Calls(lambda _: 0.001)
    timing = calls.timed(budget_s=10)
    assert timing.warmup_calls < 30
    assert timing.calls_per_sample == 20
    assert timing.half_width == 0
    assert not timing.budget_spent
    assert calls.now_s - 100 < 4  # of a budget of 10 s


def test_untimed_work_before_each_call_leaves_time_to_settle():
    calls = Calls(lambda _: 0.0001)

    def sample(repeats: int) -> float:
        calls.now_s += 0.001 * repeats  # untimed work before each call
        return calls.sample(repeats)

    timing = take_samples(sample, budget_s=1.0, clock=lambda: calls.now_s)
    assert timing.settled
    assert not timing.budget_spent
    assert timing.durations_s == pytest.approx([0.0001] * len(timing.durations_s))


def test_a_call_that_never_settles_is_measured_and_marked():
    timing = Calls(lambda n: 0.001 * 1.001**n).timed(budget_s=2)
    assert not timing.settled
    assert timing.budget_spent
    assert len(timing.durations_s) >= FEWEST_SAMPLES


def test_calls_before_the_time_settles_are_warm_up():
    timing = Calls(lambda n: 0.02 if n > 60 else 0.04 - n * 0.0003).timed(budget_s=4)
    assert timing.settled
    assert timing.warmup_calls >= 55
    assert max(timing.durations_s) < 0.025


def test_too_few_calls_leave_it_unknown_whether_the_time_settled():
    assert Calls(lambda _: 0.4).timed(budget_s=2).settled is None


def test_noisy_calls_are_sampled_until_the_time_is_over():
    noise = random.Random(1)  # noqa: S311
    calls = Calls(lambda _: 0.05 * noise.uniform(0.5, 1.5))
    timing = calls.timed(budget_s=5)
    assert timing.budget_spent
    assert timing.half_width is not None
    assert 4.8 < calls.now_s - 100 <= 5.1


@given(st.floats(1e-7, 100), st.floats(0, 20), st.sampled_from((0.0, 0.02)), st.floats(1, 50))
def test_the_budget_holds(call_s, budget_s, sample_s, cold):
    """Check that calls exceed the budget by little, unless one call alone takes longer than the budget."""
    calls = Calls(lambda n: call_s * (cold if n == 0 else 1))
    timing = calls.timed(budget_s, sample_s)
    spent_s = calls.now_s - 100
    assert 1 <= len(timing.durations_s) <= MOST_SAMPLES
    assert spent_s <= max(budget_s, cold * call_s) + OVERRUN * budget_s + 2 * max(call_s, sample_s) + 1e-6
    assert calls.made == timing.warmup_calls + timing.calls_per_sample * len(timing.durations_s)


def test_ranks_that_agree_make_the_same_calls():
    """The agreed value is the largest of all ranks, which here is sometimes that of the other rank."""
    others = itertools.cycle((0.0, 3.0, 0.0, 1.0, 0.0))
    result: list[float] = []

    def agree(value: float) -> float:
        result.append(max(value, next(others)))
        return result[-1]

    first = Calls(lambda _: 0.01).timed(budget_s=3, agree=agree)
    answers = iter(result)
    second = Calls(lambda n: 0.013 if n % 3 else 0.004).timed(budget_s=3, agree=lambda _: next(answers))
    assert (first.warmup_calls, first.calls_per_sample) == (second.warmup_calls, second.calls_per_sample)
    assert len(first.durations_s) == len(second.durations_s)
    assert next(answers, None) is None


@pytest.mark.parametrize(
    ("count", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (50, 18), (100, 40)]
)
def test_the_interval_of_the_median_is_that_of_the_tables(count, rank):
    """Table of the sign test's confidence interval at 95 % (Conover, Practical Nonparametric Statistics)."""
    assert interval_rank(count) == rank


def test_the_interval_covers_the_median_as_often_as_it_says():
    chance = random.Random(7)  # noqa: S311
    hits, rounds, count = 0, 2000, 15
    for _ in range(rounds):
        drawn = sorted(chance.expovariate(1.0) for _ in range(count))
        rank = interval_rank(count)
        hits += drawn[rank - 1] <= math.log(2) <= drawn[-rank]
    assert hits / rounds >= CONFIDENCE - 0.01


@pytest.mark.parametrize(
    ("durations_s", "expected"),
    [
        ((8, 7, 6, 5, 4, 3, 2, 1), True),
        ((1, 1, 1, 1, 2, 2, 2, 2), True),
        ((5, 5, 5, 5, 5, 5, 5, 5), False),
        ((2, 1, 2, 1, 2, 1, 2, 1), False),
        ((1.002, 1.002, 1.001, 1.001, 1, 1, 1, 1), False),
    ],
)
def test_a_trend_is_a_shift_that_is_regular_and_matters(durations_s, expected):
    assert has_trend(durations_s) is expected
