"""Test in which cases attention writes its scores, and that time and memory assume the same."""

from __future__ import annotations

import pytest

from recipes.cases.prediction import predict_row

RUN = {
    "case_id": "1",
    "gpu": "A100-SXM-40GB",
    "n_gpus": "1",
    "micro_batch": "16",
    "seq_len": "512",
    "precision": "fp16-mixed",
}


def predicted(**changes: str):
    return predict_row(RUN | changes)


@pytest.mark.parametrize(
    ("stack", "model", "written"),
    [
        ("hf-trainer", "bert-large", True),
        ("hf-trainer", "llama-3.2-1b", False),
        ("deepspeed", "bert-large", False),
    ],
)
def test_time_and_memory_follow_one_choice_that_is_reported(stack: str, model: str, written: bool) -> None:
    blank, false, true = (
        predicted(stack=stack, model=model, flash_attention=flag) for flag in ("", "false", "true")
    )
    same = false if written else true
    assert blank.memory is not None
    assert same.memory is not None
    assert (blank.step_time_s, blank.memory.activations) == (same.step_time_s, same.memory.activations)
    assert ("flash_attention false" in blank.assumed) == written
    assert "flash_attention false" not in false.assumed
