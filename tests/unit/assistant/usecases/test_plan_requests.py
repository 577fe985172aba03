"""Test which requests for a plan are refused, and what their settings mean."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from assistant.usecases.pinning import pins_of
from assistant.usecases.plan import (
    PlanRequest,
    cluster_of,
    plan_of,
    plan_workload,
    require_positive,
)
from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from recipes.job.pins import Pins


def plan(**fields: Any) -> Any:
    return plan_of(MachineFacts(), (), PlanRequest(**{"model": "gpt2", "gpu": "H100", "gpus": 1, **fields}))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"price": 0.0}, "--price is 0.0"),
        ({"price": -1.0}, "--price is -1.0"),
        ({"price": math.inf}, "--price is inf"),
        ({"price": math.nan}, "--price is nan"),
        ({"objective": "cost"}, "--objective cost needs a price"),
        ({"steps": 10, "tokens": 10}, "--steps and --tokens both state the length of the run"),
        ({"samples": 10, "tokens": 10}, "--tokens and --samples both state the length of the run"),
        ({"image_size": 224}, "--image-size is given, but gpt2 is not an image model"),
        ({"gpu": None}, "--gpus describes nodes of a GPU that is not named"),
        ({"gpu": None, "gpus": None, "network": "8x400G IB"}, "--network describes nodes of a GPU"),
        ({"model": "resnet50", "sequence_length": 128}, "has no --sequence-length"),
        ({"model": "resnet50", "tokens": 128}, "has no --tokens"),
        ({"model": "resnet50", "tuning": "lora"}, "has no --tuning lora"),
        ({"model": "resnet50", "lora_rank": 8}, "has no --lora-rank"),
        ({"model": "resnet50", "image_size": 16385}, "--image-size is 16385 pixels"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(fields, words):
    with pytest.raises(UsageError) as raised:
        plan(**fields)
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("fields", "length_from", "steps"),
    [
        ({}, "assumed", None),
        ({"steps": 7}, "steps", 7),
        ({"tokens": 10 * 8 * 1024}, "tokens", 10),
        ({"samples": 24}, "samples", 3),
    ],
)
def test_the_length_of_a_run_has_the_unit_that_was_given(fields, length_from, steps):
    made = plan(global_batch=8, sequence_length=1024, **fields)
    assert made.run.length_from == length_from
    assert steps is None or made.run.steps == steps


def test_a_price_is_that_of_all_gpu_hours():
    cheap, dear = (plan(global_batch=8, steps=1000, price=price).run for price in (1.0, 2.0))
    assert cheap.price_per_gpu_hour == 1.0
    assert dear.cost == pytest.approx(2 * cheap.cost)
    assert plan(global_batch=8, steps=1000).run.cost is None


def test_the_fastest_program_is_sought_unless_one_was_named():
    assert plan(steps=10, global_batch=8).fastest_program is not None
    assert plan(steps=10, global_batch=8, program="deepspeed").fastest_program is None


@pytest.mark.parametrize(
    ("name", "value", "is_possible"),
    [
        ("nodes", 0, False),
        ("nodes", 1, True),
        ("nodes", 10**5, True),
        ("nodes", 10**5 + 1, False),
        ("lora_rank", 10**5 + 1, False),
        ("steps", 10**5 + 1, True),
        ("steps", 10**9, True),
        ("steps", 10**9 + 1, False),
        ("steps", None, True),
    ],
)
def test_numbers_outside_of_any_job_are_refused(name, value, is_possible):
    if is_possible:
        require_positive(**{name: value})
        return
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} is {value}"):
        require_positive(**{name: value})


def test_pins_are_names_with_values():
    made = pins_of(("tp=2", "micro-batch = 4", "recomputed_share=0.5"), pp=3, cp=None)
    assert made == Pins(tp=2, micro_batch=4, recomputed_share=0.5, pp=3)
    assert pins_of(("tp=1000000000",)).tp == 10**9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp=0", "the pin 'tp=0' has no valid value"),
        ("tp=-1", "has no valid value"),
        ("tp=1000000001", "has no valid value"),
        ("tp=x", "has no valid value"),
        ("tq=1", "pins nothing"),
    ],
)
def test_a_wrong_pin_is_refused(text, words):
    with pytest.raises(UsageError) as raised:
        pins_of((text,))
    assert words in raised.value.message


def test_a_plan_of_a_default_model_says_so():
    named, chosen = plan(steps=10), plan(model=None, steps=10)
    assert named.workload.model.id == "gpt2"
    assert msgspec.to_builtins(named.decisions) != msgspec.to_builtins(chosen.decisions)


@pytest.mark.parametrize("model", ["llama-3-8b", "resnet50"])
@pytest.mark.parametrize("micro_batch", [1, 3, 5, 7, 12, 48])
@pytest.mark.parametrize("gpus", [2, 6, 8])
def test_a_pinned_micro_batch_leaves_no_gpu_idle(model: str, micro_batch: int, gpus: int) -> None:
    """The batch is the nearest to the recipe's that all ranks can share with the pinned micro-batch."""
    *_, last = plan_workload(
        MachineFacts(),
        (),
        PlanRequest(model=model, gpu="H200", gpus=gpus, pins=Pins(micro_batch=micro_batch)),
    )
    made = last.result
    usual = 512 if model == "llama-3-8b" else 1024
    assert made.cluster.world_size == gpus
    assert made.chosen.micro_batch == micro_batch
    assert abs(made.chosen.global_batch - usual) <= gpus * micro_batch


def test_a_pinned_micro_batch_and_accumulation_imply_the_batch() -> None:
    for model, pins, batch in (
        ("gpt2", Pins(micro_batch=3, grad_accum=7), 168),
        ("resnet50", Pins(grad_accum=7), 1008),
    ):
        *_, last = plan_workload(MachineFacts(), (), PlanRequest(model=model, gpu="H200", gpus=8, pins=pins))
        assert last.result.chosen.global_batch == batch
        assert last.result.chosen.grad_accum == 7


@pytest.mark.parametrize(
    ("gpu", "assumed"), [("H100-200GB", "H100 SXM 96 GB"), ("T4-32GB", "T4"), ("RTX-4090-48GB", "GeForce")]
)
def test_a_memory_that_no_gpu_of_the_name_has_is_reported(gpu: str, assumed: str) -> None:
    *_, last = plan_workload(MachineFacts(), (), PlanRequest(model="gpt2", gpu=gpu, gpus=2))
    (warning,) = [words for words in last.result.warnings if "catalogue has none" in words]
    assert assumed in warning


@pytest.mark.parametrize("gpu", [row.id for row in load_catalogue().gpus])
def test_no_gpu_of_the_catalogue_contradicts_its_own_name(gpu: str) -> None:
    cluster = cluster_of(MachineFacts(), (), PlanRequest(gpu=gpu, gpus=1))
    assert not cluster.warnings


@pytest.mark.parametrize("name", ["schedule", "sharding", "activation_checkpointing"])
def test_a_wrong_word_of_a_pin_names_the_right_ones(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        pins_of((f"{name}=nonsense",))
    assert refused.value.message == f"there is no {name.replace('_', ' ')} 'nonsense'"
    assert refused.value.hint.startswith("give ")


def test_the_first_error_names_a_missing_rate_beside_missing_memory() -> None:
    """With a rate the second model fits by offloading; the first does not fit in any way."""
    asked = PlanRequest(model="ul2-20b", gpu="GTX-1080", gpus=1, fine_tuning=True)
    with pytest.raises(NoFeasiblePlanError) as refused:
        list(plan_workload(MachineFacts(), (), asked))
    assert "also, nobody published a learning rate for ul2-20b with adamw" in refused.value.hint
    asked = msgspec.structs.replace(asked, model="t5-11b", gpu="T4")
    with pytest.raises(UsageError, match="nobody published a learning rate"):
        list(plan_workload(MachineFacts(), (), asked))
    followed = msgspec.structs.replace(asked, pins=Pins(learning_rate=1e-4))
    *_, last = plan_workload(MachineFacts(), (), followed)
    assert last.result.chosen.offload
