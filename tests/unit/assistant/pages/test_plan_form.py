"""Test the form of a plan: its initial values, its request, and the complaint at each wrong field."""

from __future__ import annotations

import pytest

from assistant.pages.training import plan_form as form
from assistant.usecases.plan import PINNED_NAMES, PlanRequest
from recipes.job.pins import Pins
from tests.support.tui_plans import gpu_plan

EMPTY = dict.fromkeys((field.name for field in form.FIELDS), "")


def filled(before: PlanRequest | None = None, **values: str) -> form.Filled:
    return form.read_form({**EMPTY, **values}, before or PlanRequest())


def test_the_form_starts_from_what_was_asked_for():
    asked = form.form_values(
        PlanRequest(model="gpt2", nodes=2, global_batch=32, tuning="lora", pins=Pins(tp=4, strategy="fsdp")),
        gpu_plan(),
    )
    assert {name: value for name, value in asked.items() if value} == {
        "model": "gpt2",
        "tuning": "lora",
        "nodes": "2",
        "global_batch": "32",
        "pins": "tp=4 strategy=fsdp",
    }
    assert form.form_values(PlanRequest(), None)["model"] == ""


def test_the_form_shows_what_rigtune_chose_and_does_not_pin_it():
    values = form.form_values(PlanRequest(), gpu_plan())
    assert {name: value for name, value in values.items() if value} == {"model": "llama-3-8b", "nodes": "1"}
    hints = form.form_hints(gpu_plan())
    assert hints["global_batch"].endswith("now 64")
    assert hints["program"].endswith("now own")
    assert form.form_hints(None)["model"] == hints["model"]


def test_a_filled_form_becomes_a_request():
    assert filled(model=" gpt2 ", sequence_length="1024").request == PlanRequest(
        model="gpt2", sequence_length=1024
    )
    parts = filled(
        program="megatron", gpu="H100", gpus="4", network="8x400G IB", nodes="16", pins="tp=4, pp=2"
    )
    assert parts.request == PlanRequest(
        program="megatron", gpu="H100", gpus=4, network="8x400G IB", nodes=16, pins=Pins(tp=4, pp=2)
    )


def test_settings_without_a_field_are_kept_and_cleared_pins_are_dropped():
    before = PlanRequest(
        precision="fp16", headroom=0.2, tokens=10**9, pins=Pins(tp=2, learning_rate=1e-4, ranks_per_node=4)
    )
    request = filled(before, model="gpt2").request
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
    assert answer.request is None
    assert list(answer.complaints) == [field]


@pytest.mark.parametrize(
    ("values", "complaints"),
    [
        ({"model": "gtp2"}, {"model": "gpt2"}),
        ({"program": "megatro"}, {"program": "did you mean megatron?"}),
        ({"program": "\x1b[31m" * 99}, {"program": "rigtune list programs"}),
        ({"tuning": "loro"}, {"tuning": "full, lora, qlora"}),
        ({"program": "megatron", "tuning": "qlora"}, {"tuning": "trains only full"}),
        ({"gpu": "H1000"}, {"gpu": "rigtune list gpus"}),
        ({"gpus": "8"}, {"gpus": "name that GPU too"}),
        ({"network": "8x400G IB"}, {"network": "name that GPU too"}),
        ({"gpu": "H100", "network": "banana"}, {"network": "neither a rate nor a transport"}),
        ({"gpu": "nothing", "gpus": "8"}, {"gpu": "not in the catalogue"}),
        ({"pins": "tp"}, {"pins": "no valid value"}),
        ({"pins": "tp=x"}, {"pins": "no valid value"}),
        ({"pins": "colour=red"}, {"pins": "NAME=VALUE"}),
        ({"pins": "schedule=odd"}, {"pins": "wrong"}),
        ({"nodes": "none", "pins": "tp=0"}, {"nodes": "whole number", "pins": "no valid value"}),
    ],
)
def test_each_wrong_field_has_its_own_complaint(values, complaints):
    answer = filled(**values)
    assert answer.request is None
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
