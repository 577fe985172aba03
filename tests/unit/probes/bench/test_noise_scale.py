"""Test the gradient noise scale that follows from norms of gradients with known noise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench.bench_requests import BenchSettings
from probes.bench.noise_scale import estimate, interpret, noise_scale, requests
from probes.facts.measurements import BenchFailure
from tests.support.bench_answers import bench_context, lines_of, sample, the_one

POSITIVE = st.floats(1e-3, 1e3)


@given(signal=POSITIVE, noise=POSITIVE, small_batch=st.integers(1, 64), times=st.integers(2, 64))
def test_norms_without_chance_give_back_signal_and_noise(signal, noise, small_batch, times):
    large_batch = small_batch * times
    result = estimate(
        [signal + noise / small_batch],
        [signal + noise / large_batch],
        small_batch=small_batch,
        large_batch=large_batch,
    )
    assert result[0][0] == pytest.approx(signal, rel=1e-6, abs=1e-6 * noise)
    assert result[1][0] == pytest.approx(noise, rel=1e-6, abs=1e-6 * signal * large_batch)


@pytest.mark.parametrize(
    ("signal", "noise", "sequences"),
    [
        ([0.25, 0.25], [1.0, 3.0], 8.0),
        ([0.0], [1.0], math.inf),
        ([-1.0], [1.0], math.inf),
        ([1.0], [-1.0], 0.0),
    ],
)
def test_the_noise_scale_is_the_ratio_of_the_sums(signal, noise, sequences):
    assert noise_scale(signal, noise).sequences == sequences


def norms(steps, *, dimensions=20, signal=1.0, deviation=2.0, small_batch=2, count=8, seed=1):
    """Return the squared norms of gradients by step: the mean of the small batches, and of their average.

    All gradients are the same true gradient plus independent normal noise in every dimension.
    """
    draw = random.Random(seed)  # noqa: S311 - the same each time
    mean = math.sqrt(signal / dimensions)
    small, large = [], []
    for _ in range(steps):
        gradients = [
            [mean + draw.gauss(0, deviation / math.sqrt(small_batch)) for _ in range(dimensions)]
            for _ in range(count)
        ]
        small.append(sum(value**2 for gradient in gradients for value in gradient) / count)
        large.append(sum((sum(column) / count) ** 2 for column in zip(*gradients, strict=True)))
    return small, large


def test_a_quadratic_with_known_noise():
    """tr(Sigma) / |G|^2 is 20 dimensions x 2^2 / 1 = 80 sequences."""
    small, large = norms(400)
    result = noise_scale(*estimate(small, large, small_batch=2, large_batch=16))
    assert result.low < 80 < result.high
    assert result.sequences == pytest.approx(80, rel=0.2)
    assert result.high - result.low < 40


def answered(small, large, context=None, small_batch=2.0, **more):
    request = requests(context or bench_context())[0]
    series = {"small_squared_norm": tuple(small), "large_squared_norm": tuple(large)}
    line = sample(
        request.cases[0],
        (0.5,) * len(small),
        series=series,
        small_batch=small_batch,
        large_batch=16.0,
        **more,
    )
    return interpret(request, {0: lines_of(request, line), 1: lines_of(request, line, rank=1)})


def test_the_first_half_of_the_steps_does_not_count():
    small, large = norms(400)
    measured = answered([1e9] * 400 + small, [1e9] * 400 + large)
    scale = the_one(measured, "noise_scale_sequences")
    assert scale.median == pytest.approx(80, rel=0.2)
    assert scale.parameters["model"] == "mini"
    assert the_one(measured, "noise_scale_low_sequences").median < scale.median
    assert the_one(measured, "noise_scale_high_sequences").median > scale.median


def test_a_gradient_below_its_noise_has_no_noise_scale():
    failure = answered([10.0] * 10, [1.0] * 10)
    assert isinstance(failure, BenchFailure)
    assert failure.kind == "unsupported"
    assert "use larger batches" in failure.message


def test_an_upper_end_that_is_infinite_is_left_out():
    measured = answered([2.0] * 16, [1.2, 1.05] * 8, small_batch=8.0)
    assert "noise_scale_high_sequences" in {m.metric for m in measured}
    measured = answered([2.0] * 16, [1.9, 0.4] * 8, small_batch=8.0)
    assert {m.metric for m in measured} == {"noise_scale_sequences", "noise_scale_low_sequences"}


@pytest.mark.parametrize(
    ("small", "large", "small_batch"),
    [
        ([], [], 2.0),
        ([1.0] * 4, [1.0] * 3, 2.0),
        ([math.nan] * 4, [1.0] * 4, 2.0),
        ([1.0] * 4, [1.0] * 4, 16.0),
        ([1.0], [1.0], 2.0),
    ],
)
def test_unusable_norms_give_no_measurement(small, large, small_batch):
    assert isinstance(answered(small, large, small_batch=small_batch), BenchFailure)


def test_the_users_step_runs_on_one_rank_and_the_reference_on_all():
    (request,) = requests(bench_context(ranks=4, settings=BenchSettings(step="mine:make", folder="/f")))
    assert (request.ranks, request.cases[0]["step"], request.settings) == (1, "mine:make", {"folder": "/f"})
    (request,) = requests(bench_context(ranks=4))
    assert request.ranks == 4


def test_two_steps_are_enough():
    measured = answered([2.0] * 2, [1.2] * 2, small_batch=8.0)
    assert not isinstance(measured, BenchFailure)
    # With B = 8 and 16: |G|^2 = (16 x 1.2 - 8 x 2) / 8 = 0.4, tr = (2 - 1.2) / (1/8 - 1/16) = 12.8, ratio 32.
    assert the_one(measured, "noise_scale_sequences").median == pytest.approx(32)
