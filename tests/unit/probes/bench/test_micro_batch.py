"""Test the sweep of micro-batches: the sizes that are tried, and the conclusion from the trials."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench.bench_requests import BenchSettings, FailureLine
from probes.bench.micro_batch import fit_memory, interpret, requests
from probes.facts.measurements import BenchFailure
from probes.workers.rigtune_worker.sweep import search
from tests.support.bench_answers import bench_context, lines_of, sample, the_one

(REQUEST,) = requests(bench_context())
(CASE,) = REQUEST.cases


def trial(micro_batch, step_time_s, peak_bytes=1.0):
    return sample({**CASE, "micro_batch": micro_batch}, (step_time_s,), peak_memory_bytes=peak_bytes)


def too_large(micro_batch):
    return sample({**CASE, "micro_batch": micro_batch}, (), out_of_memory=1.0)


@given(limit=st.integers(0, 5000), most=st.integers(1, 4096))
def test_the_search_finds_the_limit_and_asks_nothing_twice(limit, most):
    asked = []
    bounds = search(lambda size: asked.append(size) or size <= limit, most)
    assert len(asked) == len(set(asked)) <= 2 * math.log2(most) + 2
    assert max(asked) <= most
    if bounds.fails is None:
        assert bounds.works <= most < 2 * bounds.works
        assert bounds.works <= limit
    else:
        assert (bounds.works, bounds.fails) == (limit, limit + 1)


@given(limit=st.integers(0, 500), answers=st.integers(0, 12))
def test_a_search_that_ends_early_knows_what_was_seen(limit, answers):
    asked = []

    def attempt(size):
        asked.append(size)
        return size <= limit if len(asked) <= answers else None

    bounds = search(attempt)
    attempted = asked[:answers]
    assert bounds.works == max((size for size in attempted if size <= limit), default=0)
    assert bounds.fails == min((size for size in attempted if size > limit), default=None)


def test_largest_and_fastest_and_the_curve():
    trials = [trial(1, 1.0, 10e9), trial(2, 1.0, 12e9), too_large(4), trial(3, 1.49, 14e9)]
    measured = interpret(REQUEST, {0: lines_of(REQUEST, *trials)})
    largest = the_one(measured, "largest_micro_batch")
    assert (largest.samples, largest.conditions["smallest_that_fails"]) == ((3.0,), 4)
    # 3 / 1.49 s is 0.7 % more than 2 / 1 s: too little to give up memory for.
    assert the_one(measured, "fastest_micro_batch").samples == (2.0,)
    rates = {m.parameters["micro_batch"]: m.median for m in measured if m.metric == "tokens_per_s"}
    assert rates == {1: 128.0, 2: 256.0, 3: pytest.approx(3 * 128 / 1.49)}
    assert the_one(measured, "memory_fixed_bytes").median == pytest.approx(8e9)
    assert the_one(measured, "memory_per_sample_bytes").median == pytest.approx(2e9)
    assert the_one(measured, "memory_fit_residual").median == pytest.approx(0.0, abs=1e-9)


def test_a_sweep_that_time_ended_names_no_micro_batch_that_fails():
    measured = interpret(REQUEST, {0: lines_of(REQUEST, trial(1, 1.0), trial(2, 1.9))})
    assert the_one(measured, "largest_micro_batch").conditions["smallest_that_fails"] == 0


def test_nothing_fits():
    failure = interpret(REQUEST, {0: lines_of(REQUEST, too_large(1))})
    assert isinstance(failure, BenchFailure)
    assert (failure.kind, failure.message) == ("out_of_memory", "out of memory with micro-batch 1")


def test_the_users_step_is_swept_and_the_reference_where_it_takes_no_micro_batch():
    (request,) = requests(bench_context(settings=BenchSettings(step="mine:make", folder="/home/u")))
    own, reference = request.cases
    assert (own, reference, request.settings["folder"]) == ({"step": "mine:make"}, CASE, "/home/u")
    mine = sample({**own, "micro_batch": 8}, (0.5,), images=8.0)
    measured = interpret(request, {0: lines_of(request, mine)})
    assert the_one(measured, "images_per_s").samples == (16.0,)
    assert the_one(measured, "fastest_micro_batch").parameters == {"step": "mine:make", "world_size": 1}
    theirs = interpret(request, {0: lines_of(request, trial(8, 0.5))})
    assert the_one(theirs, "largest_micro_batch").parameters["model"] == "mini"


def test_a_trial_that_crashed_leaves_the_others():
    crash = FailureLine(kind="crashed", message="boom", case={**CASE, "micro_batch": 2})
    start, fine, done = lines_of(REQUEST, trial(1, 1.0))
    assert the_one(interpret(REQUEST, {0: (start, fine, crash, done)}), "largest_micro_batch").samples == (
        1.0,
    )


@given(
    fixed=st.floats(0, 1e11),
    per_sample=st.floats(1e3, 1e10),
    sizes=st.sets(st.integers(1, 4096), min_size=2, max_size=12),
)
def test_the_line_goes_through_points_that_lie_on_one(fixed, per_sample, sizes):
    line = fit_memory({size: fixed + per_sample * size for size in sizes})
    assert line is not None
    assert line.residual < 1e-6
    assert line.fixed_bytes + line.per_sample_bytes * max(sizes) == pytest.approx(
        fixed + per_sample * max(sizes)
    )


@given(st.dictionaries(st.integers(1, 64), st.floats(1, 1e12), max_size=6))
def test_the_line_misses_no_point_by_more_than_its_residual(peaks):
    line = fit_memory(peaks)
    assert (line is None) == (len(peaks) < 2)
    for size, peak in peaks.items() if line else ():
        assert abs(line.fixed_bytes + line.per_sample_bytes * size - peak) <= line.residual * peak * (
            1 + 1e-9
        )


def test_the_fit_of_three_points_weighs_their_relative_errors():
    """Compare with the normal equations of (1/y, x/y) against 1, solved by hand."""
    line = fit_memory({1: 10.0, 2: 12.0, 4: 20.0})
    assert line.fixed_bytes == pytest.approx(6.41221, rel=1e-4)
    assert line.per_sample_bytes == pytest.approx(3.20611, rel=1e-4)
    assert line.residual == pytest.approx(0.06870, rel=1e-3)


def test_a_size_that_failed_and_then_fitted_is_no_limit():
    measured = interpret(
        REQUEST, {0: lines_of(REQUEST, trial(1, 1.0), too_large(2), trial(4, 1.0), too_large(6))}
    )
    assert the_one(measured, "largest_micro_batch").conditions["smallest_that_fails"] == 6
