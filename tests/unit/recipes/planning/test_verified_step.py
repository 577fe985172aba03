"""Test that a plan uses and cites the step that `rigtune verify` measured on the machine."""

from __future__ import annotations

import pytest

from assistant.usecases.plan import PlanRequest, plan_workload
from probes.facts.measurements import Measurement
from recipes.launch.edited import workload_of
from recipes.launch.recipe import Command
from recipes.launch.resolve import recipe_of
from recipes.planning.verified_step import step_parameters
from tests.support.machines import h100_node

MODEL = "llama-3.2-1b"
CITED = "measured by verify on 2026-11-23"


def planned(measurements=(), **wanted):
    *_, event = plan_workload(h100_node(), measurements, PlanRequest(model=MODEL, **wanted))
    return event.result


def seconds(plan):
    return plan.chosen.predicted.step_time_s.total


def cited(plan):
    return [words for words in plan.warnings if CITED in words]


def verified(plan, factor, **changes):
    """Return the measurement of the plan's own layout, `factor` times as slow as predicted."""
    command = Command(kind="script", target="train.py")
    recipe = recipe_of(plan, name="job", command=command, python="", facts=h100_node())
    parameters = step_parameters(workload_of(recipe), recipe.parallelism.candidate, "reference")
    return (
        Measurement(
            bench_id="verify",
            subject="8 ranks",
            metric="step_time_s",
            unit="s",
            samples=(factor * seconds(plan),) * 3,
            parameters={**parameters, **changes},
            conditions={"date": "2026-11-23"},
        ),
    )


@pytest.fixture(scope="module")
def plain():
    return planned()


def test_the_measured_step_becomes_the_prediction_and_is_cited(plain):
    again = planned(verified(plain, 1.3))
    assert seconds(again) == pytest.approx(1.3 * seconds(plain), rel=0.02)
    (note,) = cited(again)
    assert note.startswith("times are scaled by the step of llama-3.2-1b")


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "gpt2"},
        {"program": "megatron"},
        {"tuning": "lora"},
        {"optimizer": "sgd"},
        {"precision": "fp32"},
    ],
)
def test_a_step_of_another_job_is_not_used(plain, changes):
    again = planned(verified(plain, 1.3, **changes))
    assert seconds(again) == seconds(plain)
    assert cited(again) == []


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_a_step_far_from_its_prediction_is_not_used(plain, factor):
    again = planned(verified(plain, factor))
    assert seconds(again) == seconds(plain)
    assert "far from its prediction" in cited(again)[0]


@pytest.mark.parametrize(
    "changes", [{"sharding": "zero2"}, {"activation_checkpointing": "selective"}, {"shards": 3}]
)
def test_a_layout_that_is_no_anchor_is_cited_but_not_used(plain, changes):
    again = planned(verified(plain, 1.3, **changes))
    assert seconds(again) == seconds(plain)
    assert "is not used" in cited(again)[0]
