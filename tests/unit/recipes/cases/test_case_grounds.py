"""Test the rates from which a prediction is computed, and the GPU whose memory it reports."""

from __future__ import annotations

import pytest

from recipes.cases.notes import grounds_of
from recipes.cases.prediction import predict_row
from recipes.job.models.names import find_model
from tests.support.clusters import case, h100_cluster, measured

ROW = {"model": "llama-3-70b", "gpu": "H100-SXM-80GB", "n_gpus": "64", "precision": "bf16", "seq_len": "8192"}
DIVIDED = {
    "stack": "megatron-core",
    "tp": "2",
    "pp": "8",
    "micro_batch": "1",
    "grad_accum": "16",
    "activation_checkpointing": "none",
}


def test_rates_are_reported_with_their_source() -> None:
    alone, nodes = predict_row({**ROW, "n_gpus": "1"}).rests_on, predict_row(ROW).rests_on
    assert [line.split(" ", 1)[0] for line in alone] == ["989.4", "3350"]
    assert len(nodes) == 4
    assert all("catalogue: h100-sxm" in line for line in nodes[:3])
    assert "network" in nodes[3]


def test_a_measured_rate_is_given_in_teraflops() -> None:
    cluster = h100_cluster(ranks=1, flops_per_s={"bf16": measured(700e12)})
    _, candidate = case(find_model("llama-3-8b"), ranks=1)
    assert grounds_of(candidate, cluster)[0] == "700 TFLOP/s in bf16 (test)"


@pytest.mark.parametrize("figure", ["", "device"])
def test_the_fullest_gpu_is_reported_where_no_log_is_asked_for(figure: str) -> None:
    answer = predict_row({**ROW, **DIVIDED, "memory_figure": figure})
    assert answer.memory is not None
    assert answer.memory.logged < 1.0
    assert not answer.logged_stage
    total = answer.memory.total if figure else answer.memory.allocated
    assert answer.peak_mem_gib == pytest.approx(total / 1024**3)


@pytest.mark.parametrize("figure", ["allocated", "unknown"])
def test_the_predicted_memory_is_that_of_the_logged_stage(figure: str) -> None:
    answer = predict_row({**ROW, **DIVIDED, "memory_figure": figure})
    assert answer.memory is not None
    assert answer.logged_stage
    assert answer.peak_mem_gib == pytest.approx(answer.memory.allocated * answer.memory.logged / 1024**3)
