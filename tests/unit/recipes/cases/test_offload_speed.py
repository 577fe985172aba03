"""Test the time that optimizer states in the host's memory add to a step."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from recipes.cases.case import case_of_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.predict.speed.step import offloaded_s

RUN = {
    "case_id": "1",
    "model": "llama-3-8b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "1",
    "stack": "deepspeed",
    "sharding": "zero3 optimizer offload",
    "activation_checkpointing": "full",
    "seq_len": "512",
    "micro_batch": "1",
    "grad_accum": "1",
    "precision": "bf16-mixed",
    "optimizer": "adamw",
}
PARAMETERS = 8.03e9


def step_s(**changes: str) -> float:
    prediction = predict_row(RUN | changes)
    assert prediction.step_time_s is not None, prediction.reason
    return prediction.step_time_s


def test_every_micro_batch_takes_the_sum_of_gradients_up_and_down_again() -> None:
    four, eight, held = (
        step_s(grad_accum="4"),
        step_s(grad_accum="8"),
        step_s(grad_accum="8", n_gpus="1", sharding="zero3"),
    )
    passes = (eight - four) / 4 - held / 8
    # 2 bytes each way at up to 12 GB/s over PCIe 4, twice that over PCIe 5
    assert passes == pytest.approx(4 * PARAMETERS / 24e9, rel=0.25)


@pytest.mark.parametrize("sharding", ["zero3 offload", "zero3, parameters and optimizer offloaded"])
def test_weights_in_the_hosts_memory_come_up_for_both_passes(sharding: str) -> None:
    assert step_s(sharding=sharding) > step_s() + PARAMETERS / 24e9


@pytest.mark.parametrize(("gpu", "slower"), [("GH200", False), ("A100-SXM-80GB", True)])
def test_the_link_to_the_host_is_that_of_the_gpu(gpu: str, slower: bool) -> None:
    there = step_s(gpu=gpu, grad_accum="8") - step_s(gpu=gpu, grad_accum="4")
    here = step_s(grad_accum="8") - step_s(grad_accum="4")
    assert (there > here) == slower
    assert there > 1.5 * here or here > 1.5 * there


def test_gradients_and_weights_in_fp32_are_twice_as_long_on_their_way() -> None:
    def passes_s(**changes: str) -> float:
        """Return the seconds that a further micro-batch adds, less its computation."""
        many, few = (step_s(grad_accum=count, **changes) for count in ("8", "4"))
        return (many - few) / 4 - step_s(**changes | {"grad_accum": "8", "sharding": "zero3"}) / 8

    assert passes_s(precision="fp32") > 1.7 * passes_s()
    weights = step_s(precision="fp32", sharding="zero3 offload") - step_s(precision="fp32", sharding="zero3")
    assert weights > 2 * 4 * PARAMETERS / 30e9


def test_weights_that_stay_on_the_host_come_up_for_the_passes_alone() -> None:
    case = resolve(case_of_row(RUN))
    job = case.job
    passes = {"stored": PARAMETERS, "trained": PARAMETERS, "forward_s": 0.0, "backward_s": 0.0}
    up_each, up_once = offloaded_s(job, **passes)
    stays = job._replace(candidate=replace(job.candidate, offload_weights=True))
    stays_each, stays_once = offloaded_s(stays, **passes)
    assert up_each > 0
    assert up_once - stays_once == pytest.approx(up_each)
    assert stays_each == pytest.approx(3 * up_each)
