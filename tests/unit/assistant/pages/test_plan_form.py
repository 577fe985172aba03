"""Test the form of a plan: its initial values, its request, and the complaint at each wrong field."""

from __future__ import annotations

import pytest

from assistant.pages.training import plan_form as form
from assistant.usecases.pinning import PINNED_NAMES
from assistant.usecases.plan import PlanRequest
from recipes.job.pins import Pins
from recipes.launch.placeholders import PLACEHOLDERS
from recipes.launch.recipe import Command
from tests.support.tui_plans import gpu_plan

EMPTY = dict.fromkeys((field.name for field in form.FIELDS), "")


def filled(before: PlanRequest | None = None, **values: str) -> form.Filled:
    return form.read_form({**EMPTY, **values}, before or PlanRequest())


def test_the_form_starts_from_what_was_asked_for():
    request = PlanRequest(
        model="gpt2", nodes=2, global_batch=32, tuning="lora", pins=Pins(tp=4, strategy="fsdp")
    )
    command = Command(kind="module", target="my.train", arguments=("--lr", "two words"))
    asked = form.form_values(form.JobRequest(request=request, command=command, launcher="slurm"), gpu_plan())
    assert {name: value for name, value in asked.items() if value} == {
        "model": "gpt2",
        "task": "lora",
        "command": "-m my.train --lr 'two words'",
        "launcher": "slurm",
        "nodes": "2",
        "global_batch": "32",
        "pins": "tp=4 strategy=fsdp",
    }
    assert form.form_values(form.JobRequest(), None)["model"] == ""


def test_the_form_shows_what_rigtune_chose_and_does_not_pin_it():
    values = form.form_values(form.JobRequest(), gpu_plan())
    assert {name: value for name, value in values.items() if value} == {"model": "llama-3-8b", "nodes": "1"}
    hints = form.form_hints(gpu_plan())
    assert hints["global_batch"].endswith("now 64")
    assert hints["program"].endswith("now own")
    assert form.form_hints(None)["model"] == hints["model"]


def test_a_filled_form_becomes_a_request():
    assert filled(model=" gpt2 ", sequence_length="1024").job.request == PlanRequest(
        model="gpt2", sequence_length=1024
    )
    parts = filled(
        program="megatron", gpu="H100", gpus="4", network="8x400G IB", nodes="16", pins="tp=4, pp=2"
    )
    assert parts.job.request == PlanRequest(
        program="megatron", gpu="H100", gpus=4, network="8x400G IB", nodes=16, pins=Pins(tp=4, pp=2)
    )


def test_settings_without_a_field_are_kept_and_cleared_pins_are_dropped():
    before = PlanRequest(
        precision="fp16", headroom=0.2, tokens=10**9, pins=Pins(tp=2, learning_rate=1e-4, ranks_per_node=4)
    )
    request = filled(before, model="gpt2").job.request
    assert request == PlanRequest(
        model="gpt2",
        precision="fp16",
        headroom=0.2,
        tokens=10**9,
        pins=Pins(learning_rate=1e-4, ranks_per_node=4),
    )


@pytest.mark.parametrize("field", ["global_batch", "sequence_length", "nodes"])
@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "1e3", "٣", "9" * 40])
def test_a_wrong_number_is_reported_at_its_field(field, text):
    answer = filled(model="gpt2", **{field: text})
    assert answer.job is None
    assert list(answer.complaints) == [field]


@pytest.mark.parametrize(
    ("values", "complaints"),
    [
        ({"model": "gtp2"}, {"model": "gpt2"}),
        ({"program": "megatro"}, {"program": "did you mean megatron?"}),
        ({"program": "\x1b[31m" * 99}, {"program": "rigtune list programs"}),
        ({"task": "loro"}, {"task": "pretraining, fine-tuning, lora, qlora"}),
        ({"program": "megatron", "task": "qlora"}, {"task": "trains only full"}),
        ({"model": "gpt2", "command": "train.py 'open"}, {"command": "quotes"}),
        ({"model": "gpt2", "command": "train.py --lr {lr}"}, {"command": "no placeholder {lr}"}),
        ({"command": "train.py"}, {"model": "needs the model"}),
        ({"launcher": "slrum"}, {"launcher": "did you mean slurm?"}),
        ({"gpu": "H1000"}, {"gpu": "rigtune list gpus"}),
        ({"gpus": "8"}, {"gpus": "fill in the field gpu too"}),
        ({"network": "8x400G IB"}, {"network": "fill in the field gpu too"}),
        ({"gpu": "H100", "network": "banana"}, {"network": "neither a rate nor a transport"}),
        ({"gpu": "nothing", "gpus": "8"}, {"gpu": "not in the catalogue"}),
        ({"pins": "tp"}, {"pins": "no valid value"}),
        ({"pins": "tp=x"}, {"pins": "no valid value"}),
        ({"pins": "colour=red"}, {"pins": "NAME=VALUE"}),
        ({"pins": "schedule=odd"}, {"pins": "there is no schedule"}),
        ({"nodes": "none", "pins": "tp=0"}, {"nodes": "whole number", "pins": "no valid value"}),
    ],
)
def test_each_wrong_field_has_its_own_complaint(values, complaints):
    answer = filled(**values)
    assert answer.job is None
    assert set(answer.complaints) == set(complaints)
    for field, part in complaints.items():
        assert part in answer.complaints[field]
        assert answer.complaints[field].isprintable()


def test_a_field_lists_the_words_that_it_accepts():
    models = tuple(f"model-{number}" for number in range(30))
    assert form.choices("model", "model-12", models) == "model-12"
    assert form.choices("model", "", models).endswith("and 18 more")
    assert "megatron" in form.choices("program", "", models)
    assert form.choices("network", "", models) == ""
    assert all(f"{name}=" in form.choices("pins", "tp=4", models) for name in PINNED_NAMES)
    assert form.choices("command", "", models).endswith(f"and {len(PLACEHOLDERS) - 12} more")
    assert form.choices("command", "train.py --lr {learning_rate}", models).endswith("more")
    assert form.choices("command", "train.py --lr {lear", models) == "{learning_rate}"


@pytest.mark.parametrize(
    ("task", "tuning", "fine_tuning"),
    [
        ("", "full", None),
        ("pretraining", "full", False),
        ("fine-tuning", "full", True),
        ("lora", "lora", None),
    ],
)
def test_a_task_is_a_tuning_and_whether_a_model_is_trained_further(task, tuning, fine_tuning):
    request = filled(model="gpt2", task=task).job.request
    assert (request.tuning, request.fine_tuning) == (tuning, fine_tuning)
    assert form.form_values(form.JobRequest(request=request), None)["task"] == task


def test_the_users_command_keeps_its_program_and_a_known_one_is_planned_for():
    job = filled(model="gpt2", command="python train.py --lr {learning_rate}", launcher="slurm").job
    assert job.command == Command(kind="script", target="train.py", arguments=("--lr", "{learning_rate}"))
    assert (job.launcher, job.request.keeps_program, job.request.program) == ("slurm", True, "")
    assert not filled(model="gpt2").job.request.keeps_program
