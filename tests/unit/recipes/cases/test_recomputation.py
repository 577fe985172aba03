"""Number of recomputed layers: the stated one, or what people do if none is stated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.units import GIB
from recipes.cases.case import CaseError, case_of_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.cases.table_words import checkpointing_of, recomputed_of
from recipes.constants import constant
from recipes.predict.memory.peak import memory_of
from recipes.predict.speed.layers import Computation, computation_of

ROW = {
    "case_id": "a",
    "model": "llama-3-8b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
    "sharding": "fsdp",
    "micro_batch": "1",
    "seq_len": "2048",
    "stack": "megatron-core",
}
BATCHES = tuple(range(1, 96))
"""Micro-batches from one that fits as it is to one that does not fit whatever is recomputed."""


def resolved(**changes: str) -> ResolvedCase:
    return resolve(case_of_row({**ROW, **changes}))


def filled(case: ResolvedCase) -> float:
    """Return the part of the GPU's memory that the run needs."""
    assert case.cluster.memory_bytes_per_rank is not None
    memory = memory_of(case.job)
    return memory.needed / case.cluster.memory_bytes_per_rank.value


@pytest.mark.parametrize(
    ("words", "share"),
    [
        ("full", 1.0),
        ("full (uniform, 1)", 1.0),
        ("every 2nd layer", 0.5),
        ("every other layer", 0.5),
        ("selective, every 4th layer", 0.25),
        ("full 25 %", 0.25),
        ("12.5% of the layers", 0.125),
        ("selective 25 %", 0.25),
        ("selective 1/4", 0.25),
        ("selective (1/4 of blocks)", 0.25),
        ("selective 2", 0.5),
    ],
)
def test_a_part_of_the_layers_in_words(words: str, share: float) -> None:
    assert (checkpointing_of(words), recomputed_of(words).share) == ("full", share)
    layout = resolved(activation_checkpointing=words).candidate
    assert (layout.activation_checkpointing, layout.recomputed_share) == ("full", share)


@pytest.mark.parametrize("stack", ["torch", "composer-fsdp", "hf-trainer"])
def test_a_selection_of_blocks_is_every_second_one_where_nothing_says_more(stack: str) -> None:
    case = resolved(stack=stack, activation_checkpointing="selective")
    assert (case.candidate.activation_checkpointing, case.candidate.recomputed_share) == ("full", 0.5)
    assert any("is read as every second layer" in note for note in case.assumed)
    stated = resolved(stack=stack, activation_checkpointing="selective 1/4")
    assert stated.candidate.recomputed_share == 0.25
    assert not any("is read as every second layer" in note for note in stated.assumed)


@pytest.mark.parametrize(
    "words", ["full 0 %", "full 250 %", "every 0th layer", "selective 3/0", "selective 4/3"]
)
def test_an_impossible_part_of_layers_is_refused(words: str) -> None:
    answer = predict_row({**ROW, "activation_checkpointing": words})
    assert answer.status == "refused"
    assert answer.reason.startswith("activation_checkpointing is ")


@given(st.text(max_size=60))
def test_any_words_give_a_part_or_a_reason(words: str) -> None:
    try:
        assert 0 < recomputed_of(words).share <= 1
    except CaseError as error:
        assert str(error).startswith("activation_checkpointing is ")  # noqa: PT017 - most words give a part


def test_stated_recomputation_is_kept_although_it_does_not_fit() -> None:
    case = resolved(activation_checkpointing="none", micro_batch="64")
    assert (case.candidate.activation_checkpointing, case.fits_recomputed) == ("none", False)
    assert filled(case) > 1


def test_as_many_layers_are_recomputed_as_must_be() -> None:
    shares = []
    for batch in BATCHES:
        case = resolved(micro_batch=str(batch))
        layout = case.candidate
        shares.append(layout.recomputed_share if layout.activation_checkpointing == "full" else 0.0)
        if layout.activation_checkpointing == "none":
            assert filled(case) <= constant("recompute_margin")
        elif layout.recomputed_share < 1:
            assert filled(case) <= 1
    assert shares == sorted(shares)
    assert set(shares) == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_a_stack_without_a_setting_for_it_recomputes_all_layers_or_none() -> None:
    ones = [resolved(micro_batch=str(batch), stack="hf-trainer").candidate for batch in BATCHES]
    assert {item.recomputed_share for item in ones} == {1.0}
    assert {item.activation_checkpointing for item in ones} == {"none", "full"}


def test_the_part_is_reported() -> None:
    answers = [predict_row({**ROW, "micro_batch": str(batch)}) for batch in BATCHES]
    said = next(
        answer
        for answer in answers
        if "activation_checkpointing full of 25 % of the layers" in answer.assumed
    )
    assert "checkpointing full of 25 % of the layers" in said.layout
    assert answers[0].assumed.count("activation_checkpointing none") == 1


def test_a_run_near_the_limit_recomputes_nothing_and_names_the_recomputation_that_would_fit() -> None:
    near = [
        case
        for batch in BATCHES
        if (case := resolved(micro_batch=str(batch), stack="hf-trainer")).fits_recomputed
    ]
    for case in near:
        assert case.candidate.activation_checkpointing == "none"
        assert 1 < filled(case) <= constant("recompute_margin")
        answer = predict_row({**ROW, "stack": "hf-trainer", "micro_batch": str(case.candidate.micro_batch)})
        assert answer.fits is True
        other = answer.fits_by_recomputing
        assert other is not None
        assert other.layout == "checkpointing full"
        assert other.total_gib < answer.memory_limit_gib < answer.memory.total / GIB
        stated = {
            "activation_checkpointing": "none",
            "micro_batch": str(case.candidate.micro_batch),
            "stack": "hf-trainer",
        }
        as_stated = predict_row({**ROW, **stated})
        assert (as_stated.fits, as_stated.fits_by_recomputing) == (False, None)
    assert near


@pytest.mark.parametrize(
    ("stack", "flash", "words"),
    [
        (
            "megatron-core",
            "true",
            "only attention scores, which fused attention never keeps: no memory is saved)",
        ),
        ("megatron-core", "false", "(recomputes only attention scores)"),
        (
            "torchtitan",
            "true",
            "(the output of every second matrix product is kept, all other outputs are recomputed)",
        ),
    ],
)
def test_the_layout_names_what_selective_recomputation_recomputes(stack: str, flash: str, words: str) -> None:
    row = {**ROW, "stack": stack, "flash_attention": flash}
    answers = {mode: predict_row({**row, "activation_checkpointing": mode}) for mode in ("none", "selective")}
    assert answers["selective"].layout.endswith(words)
    none, selective = (answer.memory.activations for answer in answers.values() if answer.memory is not None)
    assert (selective == none) == words.endswith("no memory is saved)")


@pytest.mark.parametrize(
    ("changes", "is_reported"), [({}, True), ({"fsdp": "8"}, False), ({"gpus_per_node": "8"}, False)]
)
def test_the_assumed_sharding_group_is_reported_where_the_row_states_none(
    changes: dict[str, str], is_reported: bool
) -> None:
    answer = predict_row({**ROW, "sharding": "hsdp", "n_gpus": "16", **changes})
    assert (
        any(note.startswith("fsdp 8, the data-parallel GPUs of a node") for note in answer.assumed)
        == is_reported
    )


def test_images_are_not_recomputed() -> None:
    row = {"case_id": "a", "model": "resnet50", "family": "cnn", "gpu": "V100-SXM2-16GB", "n_gpus": "1"}
    case = resolve(case_of_row({**row, "micro_batch": "4096"}))
    assert (case.candidate.activation_checkpointing, case.candidate.recomputed_share) == ("none", 1.0)


def test_gpus_that_share_a_sequence_share_states_too_where_they_must() -> None:
    layout = resolved(
        stack="deepspeed", sharding="", n_gpus="512", global_batch="256", gpu="A100-SXM-80GB"
    ).candidate
    assert (layout.degrees.cp, layout.sharding) == (2, "zero2")


@pytest.mark.parametrize(
    ("words", "layers", "together"),
    [
        ("block 10", 10, 1),
        ("full block 10", 10, 1),
        ("full (block, 10)", 10, 1),
        ("10 layers", 10, 1),
        ("recompute_num_layers=10", 10, 1),
        ("uniform 2", None, 2),
        ("full uniform 2 layers", None, 2),
        ("full (uniform, 1)", None, 1),
        ("full", None, 1),
        ("every 2 layers", None, 1),
    ],
)
def test_a_number_of_layers_in_words(words: str, layers: int | None, together: int) -> None:
    again = recomputed_of(words)
    assert (checkpointing_of(words), again.layers, again.together) == ("full", layers, together)


@pytest.mark.parametrize(
    ("layout", "share"),
    [
        ({}, 10 / 32),
        ({"pp": "2"}, 20 / 32),
        ({"pp": "4"}, 1.0),
        ({"pp": "2", "vp": "2", "sharding": ""}, 1.0),
    ],
)
def test_layers_are_counted_in_each_stage(layout: dict[str, str], share: float) -> None:
    assert resolved(activation_checkpointing="block 10", **layout).candidate.recomputed_share == share


def test_layers_recomputed_at_once_keep_fewer_inputs_and_more_that_live() -> None:
    full, one, two, all_of_them = (
        resolved(activation_checkpointing=words, micro_batch="4").memory_of_case()
        for words in ("full", "uniform 1", "uniform 2", "uniform 32")
    )
    assert one == full
    assert two.allocated < full.allocated  # the peak is at the loss, where only inputs of layers are kept
    # In the backward pass, all 32 layers are recomputed and kept at the same time.
    assert all_of_them.allocated > full.allocated


def test_images_say_that_checkpointing_is_left_out() -> None:
    row = {
        "case_id": "a",
        "model": "resnet50",
        "family": "cnn",
        "gpu": "V100-SXM2-16GB",
        "n_gpus": "1",
        "micro_batch": "64",
    }
    said, none = (predict_row({**row, "activation_checkpointing": words}) for words in ("full", "none"))
    assert any("activation_checkpointing full is ignored" in note for note in said.assumed)
    assert not any("activation_checkpointing" in note for note in none.assumed)
    assert said.peak_mem_gib == none.peak_mem_gib


def repeated_share(**changes: str) -> float:
    """Return the part of a layer's forward pass that full recomputation repeats."""
    computation = computation_of(resolved(**{"seq_len": "8192", **changes}).job)
    assert isinstance(computation, Computation)
    return computation.blocks[0].again / computation.blocks[0].forward


@pytest.mark.parametrize("stack", ["torch", "torchtitan", "torchtune", "maxtext", "composer-fsdp"])
def test_a_checkpoint_that_stops_early_does_not_repeat_the_last_product(stack: str) -> None:
    # the last product has 14336 x 4096 of the 218 million weights of a layer
    assert 0.7 < repeated_share(stack=stack) < 0.87


@pytest.mark.parametrize("stack", ["megatron-core", "hf-trainer", "deepspeed", "megatron-deepspeed"])
def test_a_reentrant_checkpoint_repeats_the_whole_layer(stack: str) -> None:
    assert repeated_share(stack=stack) == 1.0


def test_adapters_after_the_last_product_and_routed_experts_need_its_output() -> None:
    adapted = {"stack": "litgpt", "task": "lora", "n_gpus": "1", "sharding": "single"}
    assert repeated_share(**adapted) == 1.0
    assert repeated_share(stack="torchtitan", model="mixtral-8x7b", n_gpus="64") == 1.0


def test_a_layer_that_waits_for_its_launches_saves_no_product_by_stopping_early() -> None:
    tiny = {"stack": "composer-fsdp", "model": "gpt2", "n_gpus": "1", "sharding": "single", "seq_len": "128"}
    assert repeated_share(**tiny) > 0.98
    assert repeated_share(**tiny, gpu_peak_tflops="4000") >= repeated_share(**tiny)
