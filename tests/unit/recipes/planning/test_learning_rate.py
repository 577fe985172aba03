"""The rules that carry a recipe to another batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.job.models.counts import load_models
from recipes.job.models.names import find_model
from recipes.job.workload import Workload
from recipes.planning.learning_rate import critical_batch_tokens, learning_rate, warmup_steps


def workload(model_id="gpt2", global_batch=512, steps=1000, length=1024) -> Workload:
    return Workload(
        model=find_model(model_id), sequence_length=length, global_batch=global_batch, steps=steps
    )


def test_the_published_batch_keeps_the_published_rate():
    assert learning_rate(workload()).value == 6e-4


def test_a_quarter_of_the_batch_halves_the_rate():
    assert learning_rate(workload(global_batch=128)).value == pytest.approx(3e-4)


def test_growth_ends_at_the_critical_batch_with_a_warning():
    model = find_model("gpt2")
    ceiling = max(model.learning_rate_batch_tokens, critical_batch_tokens(model))
    huge = learning_rate(workload(global_batch=512 * 64))
    assert huge.value == pytest.approx(6e-4 * math.sqrt(ceiling / 524288), rel=0.01)
    assert "critical batch" in huge.warning
    assert not learning_rate(workload()).warning


@given(st.sampled_from([model.id for model in load_models()]), st.integers(1, 10**6))
def test_a_larger_batch_never_has_a_smaller_rate(model_id, global_batch):
    assert (
        learning_rate(workload(model_id, global_batch + 1)).value
        >= learning_rate(workload(model_id, global_batch)).value
        > 0
    )


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_warm_up_takes_at_most_a_tenth_and_at_least_one_step(steps, global_batch):
    assert 1 <= warmup_steps(workload(steps=steps, global_batch=global_batch)).value <= max(1, steps // 10)


def test_the_warm_up_is_kept_in_tokens_for_smaller_batches():
    assert warmup_steps(workload(steps=10**6)).value == 200
    assert warmup_steps(workload(steps=10**6, global_batch=64)).value == 1600
    assert warmup_steps(workload(steps=10**6, global_batch=4096)).value == 200
