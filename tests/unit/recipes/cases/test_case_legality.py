"""Test that impossible layouts are refused with the column, and words that contradict each other."""

from __future__ import annotations

import pytest

from recipes.cases.case import case_of_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase

DENSE = {"case_id": "a", "model": "llama-3-70b", "gpu": "H100-SXM-80GB", "n_gpus": "64", "micro_batch": "1"}
MIXTURE = {"case_id": "b", "model": "mixtral-8x7b", "gpu": "H100-SXM-80GB", "n_gpus": "8", "micro_batch": "1"}


def resolved(row: dict[str, str], **changes: str) -> ResolvedCase:
    return resolve(case_of_row({**row, **changes}))


@pytest.mark.parametrize(
    ("row", "changes", "column", "remedy"),
    [
        (MIXTURE, {"n_gpus": "1", "ep": "8"}, "ep is 8", "1 GPU"),
        (MIXTURE, {"n_gpus": "4", "ep": "8"}, "ep is 8", "4 GPUs: choose a divisor of 4"),
        (
            MIXTURE,
            {"n_gpus": "8", "pp": "2", "ep": "8"},
            "ep is 8",
            "4 GPUs of a pipeline stage (n_gpus over pp 2)",
        ),
        (DENSE, {"n_gpus": "8", "ep": "2"}, "ep is 2", "has no experts: leave it blank"),
        (DENSE, {"n_gpus": "81", "pp": "81"}, "pp is 81", "80 layers: give at most 80"),
        (MIXTURE, {"pp": "8", "ep": "8"}, "ep is 8", "1 GPU of a pipeline stage"),
        (MIXTURE, {"n_gpus": "24", "ep": "3"}, "ep is 3", "8 experts"),
        (DENSE, {"pp": "4", "vp": "200"}, "vp is 200", "give at most 20"),
        (DENSE, {"vp": "2"}, "vp is 2", "leave vp blank"),
        (DENSE, {"cp": "8", "seq_len": "4"}, "cp is 8", "give 16"),
        (DENSE, {"seq_len": "4096", "mean_seq_len": "4097"}, "mean_seq_len is 4097", "at most 4096 tokens"),
        (DENSE, {"cp": "8", "sharding": "fsdp", "fsdp": "65"}, "fsdp is 65", "give at most 64"),
        (DENSE, {"seq_len": "-" + "7" * 60}, "seq_len is -" + "7" * 39 + ":", "give a number from 0 to"),
        (DENSE, {"cp": "16", "seq_len": "131071"}, "cp is 16", "give 131072"),
        (DENSE, {"n_gpus": "8", "sharding": "fsdp", "fsdp": "16"}, "fsdp is 16", "give at most 8"),
        (DENSE, {"n_gpus": "8", "sharding": "single"}, "sharding is 'single'", "give ddp"),
        (DENSE, {"sharding": "fsdp", "zero_stage": "0"}, "zero_stage is 0", "leave one of them blank"),
        (DENSE, {"sharding": "zero2", "zero_stage": "3"}, "zero_stage is 3", "leave one of them blank"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(
    row: dict[str, str], changes: dict[str, str], column: str, remedy: str
) -> None:
    answer = predict_row({**row, **changes})
    assert answer.status == "refused"
    assert answer.reason.startswith(f"{column}")
    assert remedy in answer.reason


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (MIXTURE, {"ep": "8"}),
        (MIXTURE, {"n_gpus": "", "pp": "4", "ep": "8"}),  # the degrees give the number of GPUs
        (
            MIXTURE,
            {"n_gpus": "32", "pp": "4", "tp": "4", "ep": "8"},
        ),  # experts take the tensor-parallel GPUs too
        (DENSE, {"pp": "4", "vp": "5"}),
        (DENSE, {"n_gpus": "80", "pp": "80"}),
        (DENSE, {"seq_len": "4096", "mean_seq_len": "4096"}),
        (DENSE, {"cp": "16", "seq_len": "131072"}),
        (
            DENSE,
            {"cp": "8", "sharding": "fsdp", "fsdp": "64"},
        ),  # counted with context parallelism, as torch's mesh does
        (DENSE, {"tp": "8", "pp": "8", "sharding": "single"}),
    ],
)
def test_a_layout_that_can_be_is_not(row: dict[str, str], changes: dict[str, str]) -> None:
    assert predict_row({**row, **changes}).status == "predicted"


def test_parts_of_a_pipeline_that_are_not_alike_are_reported() -> None:
    assert any(
        "pp 4 x vp 7 does not divide 80 layers" in note for note in resolved(DENSE, pp="4", vp="7").assumed
    )
    assert not any("does not divide" in note for note in resolved(DENSE, pp="4", vp="5").assumed)


@pytest.mark.parametrize(
    ("words", "offload"), [("zero3 offload", True), ("zero3 nvme", True), ("zero3", False), ("zero2", False)]
)
def test_one_gpu_offloads_where_the_words_say_so(words: str, offload: bool) -> None:
    named = resolved(DENSE, n_gpus="1", sharding=words)
    assert named.candidate.offload == offload
    assert any(f"`{words} offload` if they are" in note for note in named.assumed) != offload


def test_a_zero_stage_as_number_is_the_same_as_its_name() -> None:
    number, word = (
        resolved(DENSE, n_gpus="1", stack="hf-trainer", **said)
        for said in ({"zero_stage": "3"}, {"sharding": "zero3"})
    )
    assert number.candidate == word.candidate
    assert number.memory_of_case() == word.memory_of_case()


def test_offload_is_assumed_on_one_gpu_if_the_examples_of_the_stack_offload() -> None:
    case = resolved(DENSE, n_gpus="1", sharding="zero3", stack="peft")
    assert case.candidate.offload
    assert any("the stack's own examples" in note for note in case.assumed)
    assert not resolved(DENSE, n_gpus="2", sharding="zero3", stack="peft").candidate.offload


def test_zero_plus_plus_is_zero_3_and_says_what_is_left_out() -> None:
    case = resolved(DENSE, sharding="zero++")
    assert (case.candidate.sharding, case.candidate.degrees.fsdp) == ("zero3", 64)
    assert any("quantised communication" in note for note in case.assumed)


def test_states_on_nvme_are_reported_to_be_taken_for_the_hosts() -> None:
    assert any("NVMe" in note for note in resolved(DENSE, sharding="zero3 nvme").assumed)


@pytest.mark.parametrize(
    ("changes", "fsdp"), [({}, 8), ({"gpus_per_node": "4"}, 4), ({"tp": "2"}, 4), ({"fsdp": "16"}, 16)]
)
def test_hybrid_sharding_stays_in_the_node(changes: dict[str, str], fsdp: int) -> None:
    degrees = resolved(DENSE, sharding="hsdp", **changes).candidate.degrees
    assert degrees.fsdp == fsdp
    assert degrees.dp * degrees.fsdp * degrees.tp == 64


def test_the_machine_at_hand_has_to_be_asked_for() -> None:
    answer = predict_row({**DENSE, "gpu": "here"})
    assert answer.status == "refused"
    assert "give --here" in answer.reason
