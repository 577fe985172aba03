"""Test that a prediction reports the cells that were not understood, and no others."""

from __future__ import annotations

import pytest

from recipes.cases.prediction import predict_row

ROW = {
    "model": "llama-3-8b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "16",
    "gpus_per_node": "8",
    "precision": "bf16",
}
"""Cells of a case on two nodes."""


def said(**changes: str) -> str:
    answer = predict_row({**ROW, **changes})
    assert answer.status == "predicted", answer.reason
    return "; ".join(answer.assumed)


@pytest.mark.parametrize(
    ("column", "junk", "known"),
    [
        ("interconnect_intra", "quantum entanglement", "NVLink4"),
        ("interconnect_inter", "carrier pigeons", "8x NDR InfiniBand 400 Gb/s"),
        ("memory_figure", "rss", "reserved"),
    ],
)
def test_words_that_mean_nothing_are_named(column: str, junk: str, known: str) -> None:
    assert f"{column} '{junk}'" in said(**{column: junk})
    assert column not in said(**{column: known})
    assert column not in said()


def test_a_network_that_the_case_does_not_state_is_reported() -> None:
    assert "usual network, eight GPUs on an NVSwitch board" in said()
    assert "usual network, one port of Ethernet: 100 Gb/s" in said(interconnect_inter="Ethernet")
    assert "network" not in said(interconnect_inter="8x NDR InfiniBand 400 Gb/s")
    assert "network" not in said(n_gpus="8")


def test_links_that_the_run_does_not_use_are_not_judged() -> None:
    assert "interconnect" not in said(n_gpus="1", interconnect_intra="?", interconnect_inter="?")
    assert "interconnect_inter" not in said(n_gpus="8", interconnect_inter="?")


@pytest.mark.parametrize(
    ("gpu", "precision", "taken"),
    [
        ("V100-SXM2-32GB", "bf16", "fp16"),
        ("V100-SXM2-32GB", "tf32", "fp32"),
        ("V100-SXM2-32GB", "fp16", ""),
        ("A100-SXM-80GB", "bf16", ""),
        ("RTX 3090", "tf32", ""),
    ],
)
@pytest.mark.parametrize("model", ["bert-large", "resnet50"])
def test_a_type_without_a_unit_is_reported_to_run_at_another_rate(
    gpu: str, precision: str, taken: str, model: str
) -> None:
    words = said(gpu=gpu, precision=precision, model=model)
    assert (f"has no unit for {precision}: its rate for {taken} is used" in words) == bool(taken)
    assert ("has no unit" in words) == bool(taken)


@pytest.mark.parametrize("column", ["tp", "pp", "cp", "ep", "vp"])
def test_an_image_model_cannot_be_divided(column: str) -> None:
    answer = predict_row({**ROW, "model": "resnet50", column: "2"})
    assert answer.status == "refused"
    assert f"{column} is 2, but" in answer.reason
    assert "can be divided only by dp and fsdp" in answer.reason


def test_nf4_without_adapters_is_reported_as_a_format_of_frozen_weights() -> None:
    assert "nf4 applies only to frozen weights" in said(precision="nf4")
    assert "frozen weights" not in said(precision="nf4", task="qlora")


def test_the_words_for_offload_are_proposed_only_where_they_would_change_the_prediction() -> None:
    case = {"n_gpus": "1", "zero_stage": "3", "sharding": "ZeRO-3"}
    proposal = "write `zero3 offload`"
    assert proposal in said(**case)
    assert proposal not in said(**case, stack="peft")
    assert "assumed in the host's memory" in said(**case, stack="peft")
    assert proposal not in said(**case | {"sharding": "ZeRO-3 offload"})
