"""Test the reasons of a layout: every number must agree with a plan that is pinned to the alternative."""

from __future__ import annotations

import functools
import re

import msgspec
import pytest

from assistant.usecases.plan import PlanRequest, plan_workload
from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.job.pins import Pins
from recipes.planning.plan import Decision, Plan

REQUESTS = {
    "megatron": PlanRequest(model="llama-3-70b", gpu="H100", gpus=8, nodes=8, program="megatron"),
    "experts": PlanRequest(model="mixtral-8x7b", gpu="H100", gpus=8, nodes=4, program="megatron"),
    "torchtitan": PlanRequest(model="llama-2-70b", gpu="H100", gpus=8, nodes=8, program="torchtitan"),
    "deepspeed": PlanRequest(model="llama-3-8b", gpu="A100-SXM4-80GB", gpus=8, nodes=2, program="deepspeed"),
    "own": PlanRequest(model="llama-3-8b", gpu="H100", gpus=8),
}
DEGREES = ("tp", "pp", "cp", "ep", "fsdp")


def planned(request: PlanRequest, **pins) -> Plan:
    asked = msgspec.structs.replace(request, pins=Pins(**pins))
    *_, last = plan_workload(MachineFacts(), (), asked)
    return last.result


@functools.cache
def plan_of(name: str) -> Plan:
    return planned(REQUESTS[name])


def decision(plan: Plan, name: str) -> Decision | None:
    return next((row for row in plan.decisions if row.name == name), None)


def fastest(plan: Plan) -> float:
    """Return the seconds of the fastest layout, also if a tie made the plan choose another one."""
    return min(row.predicted.step_time_s.total for row in (plan.chosen, *plan.alternatives))


def stated_growth(words: str) -> float | None:
    if match := re.search(r"([\d.]+) times as slow", words):
        return float(match[1]) - 1
    if match := re.search(r"([\d.]+) % (slower|faster)", words):
        return float(match[1]) / 100 * (1 if match[2] == "slower" else -1)
    return 0.0 if words.startswith("as fast") else None


@pytest.mark.parametrize("name", REQUESTS)
def test_the_cost_of_each_other_degree_is_that_of_a_plan_pinned_to_it(name):
    plan = plan_of(name)
    mine = plan.chosen.predicted.step_time_s.total
    compared = 0
    for degree in DEGREES[:4]:
        row = decision(plan, degree)
        for alternative in row.alternatives if row else ():
            title, _, words = alternative.partition(": ")
            value = int(title.split()[1])
            growth = stated_growth(words)
            if growth is None:
                assert "GiB more than a plan may use" in words
                assert lacks_memory(REQUESTS[name], **{degree: value})
                continue
            pinned = planned(REQUESTS[name], **{degree: value})
            assert fastest(pinned) / mine - 1 == pytest.approx(growth, abs=0.06 if growth >= 0.1 else 0.002)
            compared += 1
    assert compared or name in ("own", "deepspeed")


def lacks_memory(request: PlanRequest, **pins) -> bool:
    """Return whether a pinned request has no plan that keeps the usual part of the memory free."""
    try:
        planned(msgspec.structs.replace(request, headroom=constant("memory_headroom")), **pins)
    except NoFeasiblePlanError:
        return True
    return False


@pytest.mark.parametrize("name", REQUESTS)
def test_the_cost_of_another_micro_batch_or_recomputation_is_that_of_a_pinned_plan(name):
    plan = plan_of(name)
    mine = plan.chosen.predicted.step_time_s.total
    degrees = {degree: getattr(plan.chosen.degrees, degree) for degree in (*DEGREES, "vp")}
    fixed = {**degrees, "sharding": plan.chosen.sharding}
    row = decision(plan, "micro_batch")
    assert row is not None
    assert row.alternatives
    for alternative in row.alternatives:
        title, _, words = alternative.partition(": ")
        growth = stated_growth(words)
        if growth is None:
            continue
        pinned = planned(REQUESTS[name], **fixed, micro_batch=int(title.removeprefix("micro-batch ")))
        assert pinned.chosen.predicted.step_time_s.total / mine - 1 == pytest.approx(growth, abs=0.06)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_alternative_and_rejection_has_a_reason_with_a_number(name):
    plan = plan_of(name)
    mine = plan.chosen.predicted.step_time_s.total
    tie = constant("layout_tie")
    for row in plan.alternatives:
        growth = row.predicted.step_time_s.total / mine - 1
        assert row.is_tie == (growth <= tie)
        assert stated_growth(row.lost_because) == pytest.approx(growth, abs=0.06 if growth > 0.09 else 0.0006)
        assert ("within the tie" in row.lost_because or "as fast" in row.lost_because) == row.is_tie
    for rejected in plan.rejected:
        assert re.match(r"needs [\d.]+ (GiB|TiB) of", rejected.reason)
    assert not plan.chosen.lost_because
    assert not plan.chosen.is_tie


def test_a_model_that_needs_model_parallelism_says_how_much_memory_is_missing_without():
    plan = planned(PlanRequest(model="llama-3-70b", gpu="H100", gpus=8, nodes=4, program="megatron"))
    pipeline = decision(plan, "pp")
    tensor = decision(plan, "tp")
    assert pipeline is not None
    assert tensor is not None
    assert "GiB more than a plan may use" in pipeline.because + tensor.because
    assert "without" in pipeline.because + tensor.because


def test_a_pinned_degree_is_the_users_and_is_kept():
    plan = planned(REQUESTS["megatron"], tp=2)
    row = decision(plan, "tp")
    assert row is not None
    assert (row.value, row.basis, row.because) == ("2", "user", "you fixed it")
    assert plan.chosen.degrees.tp == 2


def test_a_pin_is_no_limit_of_the_program():
    parts = planned(REQUESTS["megatron"], pp=4, vp=1)
    recomputed = planned(REQUESTS["megatron"], activation_checkpointing="full", recomputed_share=0.5)
    for plan, name in (
        (parts, "schedule"),
        (recomputed, "activation_checkpointing"),
        (recomputed, "recomputed_share"),
    ):
        row = decision(plan, name)
        assert row is not None
        assert "the program has no other" not in row.because
        assert "the smallest part" not in row.because


def test_memory_that_the_user_leaves_none_of_is_no_condition():
    plan = planned(msgspec.structs.replace(REQUESTS["own"], headroom=0.0))
    row = decision(plan, "memory_headroom")
    assert row is not None
    assert row.because.endswith("the plan leaves no memory free on purpose")


@pytest.mark.parametrize(("tuning", "over"), [("full", "fp32 parameters"), ("lora", "frozen weights")])
def test_the_precision_names_the_weights_that_the_job_has(tuning, over):
    row = decision(planned(msgspec.structs.replace(REQUESTS["own"], tuning=tuning)), "precision")
    assert row is not None
    assert row.because.startswith(f"mixed precision: bf16 computation over {over}")


def test_a_program_without_model_parallelism_has_no_decision_about_degrees():
    assert not {row.name for row in plan_of("own").decisions} & {"tp", "pp", "vp", "cp", "ep", "schedule"}


def test_an_option_that_was_not_searched_is_named_where_the_machine_supports_it():
    assert plan_of("megatron").not_searched[0] == "fp8"
    assert "fp8" not in plan_of("deepspeed").not_searched
    for name in REQUESTS:
        assert "offload" in plan_of(name).not_searched


def test_the_same_request_gives_the_same_plan():
    assert planned(REQUESTS["experts"]) == plan_of("experts")


@pytest.mark.parametrize(
    ("program", "model", "nodes", "strategy", "is_safe"),
    [
        ("torchtitan", "qwen2.5-7b", 2, "fsdp", True),
        ("deepspeed", "qwen2.5-7b", 1, "zero2", True),  # with a smaller micro-batch
        ("own", "gpt2", 1, "ddp", False),  # a small model is not sharded for it
    ],
)
def test_a_layout_that_may_run_out_of_memory_gives_way_to_a_safe_one_that_is_hardly_slower(
    program, model, nodes, strategy, is_safe
):
    plan = planned(PlanRequest(model=model, gpu="H100", gpus=8, nodes=nodes, program=program))
    assert plan.chosen.strategy == strategy
    assert any("may run out of memory" in words for words in plan.warnings) != is_safe
    mine = plan.chosen.predicted.step_time_s.total
    fastest = min(row.predicted.step_time_s.total for row in (plan.chosen, *plan.alternatives))
    assert mine <= fastest * (1 + constant("safe_layout_tie"))
    risky = [row for row in plan.alternatives if "may run out of memory" in row.lost_because]
    assert bool(risky) == is_safe


@pytest.mark.parametrize("program", ["", "hf-trainer", "deepspeed", "torchtitan", "megatron"])
@pytest.mark.parametrize("gpu", ["T4", "A100-SXM4-80GB", "RTX-4090"])
@pytest.mark.parametrize("model", ["bert-base", "gpt2", "llama-3.2-1b", "t5-small"])
def test_each_alternative_loses_for_a_reason(model: str, gpu: str, program: str) -> None:
    """A simpler layout within the tie loses to a safe one if both are compared with the fastest layout."""
    try:
        plan = planned(PlanRequest(model=model, gpu=gpu, gpus=4, program=program))
    except (NoFeasiblePlanError, UsageError):
        return
    for row in plan.alternatives:
        assert not row.lost_because.endswith(("within the tie", "as fast")), row.lost_because
