"""Test that a counted module of the user is predicted like an image model, under its name in the cases."""

from __future__ import annotations

import json

import pytest

from probes.base.errors import InputError
from recipes.cases.prediction import CasePrediction, predict_row
from recipes.job.models.counted import counted_model, names_own_module
from tests.support.own_module import counted_answer

NAME = "nets/net.py:build"
RUN = {
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
    "micro_batch": "64",
    "grad_accum": "1",
    "precision": "bf16-mixed",
}
ROW = {"case_id": "a", "model": NAME, **RUN}


def predicted(answer: dict[str, object], **changes: str) -> CasePrediction:
    return predict_row({**ROW, **changes}, own_models={NAME: counted_model(json.dumps(answer), NAME)})


def test_a_counted_module_is_predicted_and_reported_as_counted() -> None:
    answer = predicted(counted_answer())
    assert answer.status == "predicted"
    assert answer.fits is True
    assert answer.samples_per_s is not None
    assert answer.step_time_s == pytest.approx(512 / answer.samples_per_s)
    assert answer.memory is not None
    assert answer.memory.parameters == 4 * 1000
    assert answer.memory.activations == 64 * 2e7 * 2
    assert any(
        "counted on the meta device at micro-batch 2: 0.001 million parameters, 2 GFLOP" in note
        for note in answer.assumed
    )
    assert "pixels" not in answer.title


def test_full_sharding_divides_states_and_gathers_block_by_block() -> None:
    layers = counted_answer(
        parameters={"float32": 8_000_000_000}, block_parameters=200_000_000, root_parameters=1_600_000_000
    )
    replicated, sharded = (
        predicted(layers, sharding=word, optimizer="adamw").memory for word in ("ddp", "fsdp")
    )
    assert replicated is not None
    assert sharded is not None
    assert sharded.parameters == replicated.parameters / 8
    assert sharded.optimizer == replicated.optimizer / 8
    assert sharded.buffers < 0.3 * replicated.buffers
    whole = predicted(
        counted_answer(parameters={"float32": 8_000_000_000}), sharding="fsdp", optimizer="adamw"
    ).memory
    assert whole is not None
    assert whole.buffers > sharded.buffers


def test_full_sharding_updates_less_and_sends_more() -> None:
    answer = counted_answer(
        parameters={"float32": 8_000_000_000}, block_parameters=200_000_000, root_parameters=1_600_000_000
    )
    replicated, sharded = (predicted(answer, sharding=word).time for word in ("ddp", "fsdp"))
    assert replicated is not None
    assert sharded is not None
    assert sharded.optimizer < 0.2 * replicated.optimizer  # type: ignore[operator]
    assert sharded.exposed_communication > replicated.exposed_communication  # type: ignore[operator]


def test_a_module_of_ones_own_is_trained_with_adam_by_default() -> None:
    assert any("optimizer adamw" in words for words in predicted(counted_answer()).assumed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"event": "failed", "message": "no function build"}, "no function build"),
        ({"event": "failed", "message": "no function build", "per_sample": None}, "no function build"),
        ({"per_sample": None}, "no answer"),
    ],
    ids=["failed after counting", "failed", "counted nothing"],
)
def test_a_worker_that_did_not_count_is_an_error_with_its_message(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=rf"^nets/net.py:build cannot be counted: {words}$"):
        counted_model(json.dumps({**counted_answer(), **changes}), NAME)


def test_sizes_of_the_row_do_not_change_what_was_counted() -> None:
    plain = predicted(counted_answer())
    sized = predicted(
        counted_answer(), image_size="448", params_b="7", n_layers="32", hidden="4096", family="dense"
    )
    assert (sized.step_time_s, sized.memory) == (plain.step_time_s, plain.memory)


def test_an_input_without_micro_batch_is_one_sample() -> None:
    answer = predicted(counted_answer(takes_micro_batch=False))
    assert any("its whole input as one sample" in note for note in answer.assumed)


def test_frozen_parameters_are_reported_to_cost_what_trained_ones_do() -> None:
    answer = predicted(counted_answer(trainable_parameters=400))
    assert any("600 frozen parameters" in note for note in answer.assumed)


@pytest.mark.parametrize("model", [NAME, "net.py", "net.py:", "/else/where/net.py:build"])
def test_code_that_nobody_had_counted_is_refused(model: str) -> None:
    answer = predict_row({**ROW, "model": model})
    assert answer.status == "refused"
    assert answer.reason.startswith("model ")
    assert "--own-module" in answer.reason


@pytest.mark.parametrize(
    "model", ["llama-3-8b", "resnet50", "pytorch/vision:v0.10", "user/model.python:x", ""]
)
def test_names_of_models_are_no_files(model: str) -> None:
    assert not names_own_module(model)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_work_that_does_not_grow_with_the_micro_batch_is_refused(scale: float) -> None:
    each = {name: scale * value for name, value in counted_answer()["per_sample"].items()}
    with pytest.raises(InputError, match="does not grow with micro_batch"):
        counted_model(json.dumps(counted_answer(per_sample=each)), NAME)


def test_a_module_without_work_is_refused() -> None:
    each = dict.fromkeys(counted_answer()["per_sample"], 0.0)
    with pytest.raises(InputError, match="it does no work that rigtune counts"):
        counted_model(json.dumps(counted_answer(per_sample=each, takes_micro_batch=False)), NAME)
