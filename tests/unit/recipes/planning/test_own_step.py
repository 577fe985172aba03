"""The measured step of the user's program scales the times of a plan, and the plan says what is assumed."""

from __future__ import annotations

import pytest

from assistant.usecases.plan import PlanRequest, plan_workload
from probes.facts.measurements import Measurement
from tests.support.machines import h100_node


def _step(seconds, items="tokens", per_step=16 * 8192.0, **parameters):
    own = {"step": "train.py:make", "world_size": 8, **parameters}
    rates = () if items is None else ((f"{items}_per_s", per_step / seconds),)
    return tuple(
        Measurement(
            bench_id="own-step",
            subject="8 ranks",
            metric=metric,
            unit="",
            samples=(value,) * 3,
            parameters=own,
        )
        for metric, value in (("step_time_s", seconds), *rates)
    )


def _planned(measurements, model="llama-3.2-1b", **wanted):
    *_, event = plan_workload(h100_node(), measurements, PlanRequest(model=model, **wanted))
    return event.result


def _seconds(plan):
    return plan.chosen.predicted.step_time_s.total


def test_a_slower_step_makes_the_plan_slower():
    step = _step(0.5, micro_batch=2)
    plain, scaled = _planned(()), _planned(step)
    twice = _planned(_step(1.0, micro_batch=2))
    assert _seconds(scaled) != pytest.approx(_seconds(plain), rel=0.001)
    assert _seconds(twice) == pytest.approx(2 * _seconds(scaled), rel=0.2)
    (note,) = [words for words in scaled.warnings if "train.py:make" in words]
    assert note.startswith("times are scaled by your measured step train.py:make on 8 ranks")
    assert "assumed to train llama-3.2-1b in bf16" in note


def test_tokens_state_the_micro_batch_if_the_function_has_no_parameter():
    (note,) = [words for words in _planned(_step(0.5)).warnings if "train.py:make" in words]
    assert note.startswith("times are scaled")


def test_a_step_of_unknown_size_is_not_used():
    plan = _planned(_step(1.0, items=None))
    (note,) = [words for words in plan.warnings if "train.py:make" in words]
    assert "does not state its micro-batch" in note
    assert _seconds(plan) == _seconds(_planned(()))


@pytest.mark.parametrize("seconds", [1e-4, 1e4])
def test_a_step_that_trains_something_else_is_not_used(seconds):
    plan = _planned(_step(seconds, micro_batch=2))
    (note,) = [words for words in plan.warnings if "train.py:make" in words]
    assert "seems to train something else" in note
    assert _seconds(plan) == _seconds(_planned(()))


def test_a_step_on_images_scales_a_plan_of_an_image_model():
    plain = _planned((), model="resnet50")
    step = _step(0.1, items="images", per_step=8 * 128.0)
    scaled = _planned(step, model="resnet50")
    assert scaled.chosen.micro_batch == 128
    assert _seconds(scaled) == pytest.approx(0.1, rel=0.01)
    assert _seconds(plain) != pytest.approx(0.1, rel=0.01)


def test_a_plan_of_the_reference_workload_or_of_a_default_model_does_not_use_the_measured_step():
    for wanted in ({"program": "reference"}, {"model": ""}):
        assert not [words for words in _planned(_step(0.5), **wanted).warnings if "train.py" in words]
