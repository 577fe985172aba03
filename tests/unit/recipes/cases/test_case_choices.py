"""Test the layouts and batches that are assumed where a case states none."""

from __future__ import annotations

import math

import pytest

from recipes.cases.case import case_of_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase

ROW = {"case_id": "a", "gpu": "H100-SXM-80GB", "stack": "megatron-core"}
LARGE = [("qwen3-30b-a3b", 64), ("qwen3-235b-a22b", 256), ("deepseek-v3", 1024), ("mixtral-8x7b", 64)]


def resolved(model: str, gpus: int, **changes: str) -> ResolvedCase:
    return resolve(case_of_row({**ROW, "model": model, "n_gpus": str(gpus), **changes}))


@pytest.mark.parametrize(("model", "gpus"), LARGE)
def test_experts_are_spread_over_ranks(model: str, gpus: int) -> None:
    case = resolved(model, gpus)
    degrees = case.candidate.degrees
    assert degrees.ep > 1
    assert math.gcd(case.workload.model.experts, gpus // degrees.pp) % degrees.ep == 0
    assert any(f"ep {degrees.ep}" in note for note in case.assumed)
    assert case.fits(case.memory_of_case())


@pytest.mark.parametrize(("model", "gpus"), [*LARGE, ("llama-3.1-405b", 1024), ("llama-3-70b", 64)])
def test_a_layout_that_is_chosen_is_worth_its_gpus(model: str, gpus: int) -> None:
    answer = predict_row({**ROW, "model": model, "n_gpus": str(gpus)})
    assert answer.fits
    assert answer.mfu is not None
    assert answer.mfu > 0.1
    assert answer.time is not None
    assert answer.time.bubble < 0.25 * answer.time.total  # type: ignore[operator]


@pytest.mark.parametrize(("ep", "tp"), [(4, 4), (8, 8), (16, 8)])
def test_no_stated_layout_that_fits_is_much_faster_than_the_chosen_one(ep: int, tp: int) -> None:
    chosen = predict_row({**ROW, "model": "qwen3-30b-a3b", "n_gpus": "64"})
    stated = predict_row({**ROW, "model": "qwen3-30b-a3b", "n_gpus": "64", "ep": str(ep), "tp": str(tp)})
    assert chosen.tokens_per_s_per_gpu is not None
    assert stated.tokens_per_s_per_gpu is not None
    assert chosen.tokens_per_s_per_gpu > stated.tokens_per_s_per_gpu


def test_experts_are_spread_also_where_copies_of_all_fit() -> None:
    chosen = predict_row({**ROW, "model": "gpt-oss-20b", "n_gpus": "64", "gpu": "B200-SXM-180GB"})
    copies = predict_row({**ROW, "model": "gpt-oss-20b", "n_gpus": "64", "gpu": "B200-SXM-180GB", "ep": "1"})
    assert copies.fits
    assert chosen.tokens_per_s_per_gpu is not None
    assert copies.tokens_per_s_per_gpu is not None
    assert chosen.tokens_per_s_per_gpu > copies.tokens_per_s_per_gpu


@pytest.mark.parametrize("stack", ["torchtitan", "torch"])
def test_long_sequences_are_spread_where_one_does_not_fit(stack: str) -> None:
    long, odd = (resolved("llama-3-8b", 8, stack=stack, seq_len=length) for length in ("131072", "131071"))
    assert long.candidate.degrees.cp > 1
    assert long.fits(long.memory_of_case())
    assert odd.candidate.degrees.cp == 1


def test_tensor_parallelism_stays_where_links_are_fast() -> None:
    assert resolved("llama-3-70b", 64, gpus_per_node="2").candidate.degrees.tp <= 2


def test_stages_have_equally_many_layers_with_embedding_and_head() -> None:
    degrees = resolved("llama-3.1-405b", 1024).candidate.degrees
    assert (126 + 2) % degrees.pp == 0


def test_a_stated_expert_parallelism_leaves_the_other_degrees_open() -> None:
    case = resolved("deepseek-v3", 1024, ep="64")
    assert case.candidate.degrees.ep == 64
    assert case.candidate.degrees.pp > 1
    assert case.fits(case.memory_of_case())


def test_a_stated_layout_is_untouched() -> None:
    layout = resolved("qwen3-30b-a3b", 64, tp="8", pp="4", micro_batch="1", global_batch="64").candidate
    assert (layout.degrees.tp, layout.degrees.pp, layout.degrees.ep, layout.grad_accum) == (8, 4, 1, 32)


def test_fully_sharded_experts_are_spread_where_their_layers_do_not_fit() -> None:
    case = resolved("deepseek-v3", 1024, stack="torchtitan")
    degrees = case.candidate.degrees
    assert case.candidate.sharding == "zero3"
    assert degrees.fsdp >= 64  # shards span a replica or all GPUs
    assert degrees.ep > 1
    # The Trainer has no expert parallelism.
    assert resolved("deepseek-v3", 1024, stack="hf-trainer").candidate.degrees.ep == 1


@pytest.mark.parametrize(
    ("changes", "micro_batches"),
    [({}, 32), ({"grad_accum": "2"}, 2), ({"global_batch": "16"}, 8), ({"pp": ""}, 1)],
)
def test_a_pipeline_is_filled_where_nobody_stated_a_batch(
    changes: dict[str, str], micro_batches: int
) -> None:
    layout = {"tp": "4", "pp": "8", "micro_batch": "1", **changes}
    case = resolved("llama-3-70b", 64, **layout)
    assert case.candidate.grad_accum == micro_batches
    assert any(f"global_batch 64, grad_accum {micro_batches}" in note for note in case.assumed) == (
        not changes
    )


def test_gpus_that_wait_for_each_other_are_no_pipeline() -> None:
    assert resolved("llama-3-8b", 2, sharding="device_map", stack="hf-trainer").candidate.grad_accum == 1


def test_where_nothing_fits_the_layout_that_needs_least_is_reported() -> None:
    answer = predict_row({**ROW, "model": "llama-3.1-405b", "n_gpus": "16"})
    assert answer.fits is False
    assert answer.memory is not None
    for stated in ({"tp": "8", "pp": "2"}, {"tp": "1", "pp": "16"}):
        other = predict_row({**ROW, "model": "llama-3.1-405b", "n_gpus": "16", "micro_batch": "1", **stated})
        assert other.memory is not None
        assert answer.memory.needed <= other.memory.needed


def test_a_sequence_that_ranks_cannot_cut_is_not_refused_for_a_choice_of_ours() -> None:
    answer = predict_row(
        {
            **ROW,
            "stack": "deepspeed",
            "model": "llama-3-8b",
            "n_gpus": "64",
            "global_batch": "8",
            "seq_len": "4095",
        }
    )
    assert answer.status == "predicted"


@pytest.mark.parametrize(
    ("global_batch", "micro_batch"), [("1536", 16), ("2016", 21), ("2112", 22), ("2304", 24)]
)
def test_a_share_without_powers_of_two_is_taken_by_its_largest_divisor(
    global_batch: str, micro_batch: int
) -> None:
    row = {
        "case_id": "a",
        "model": "bert-large",
        "gpu": "V100-SXM2-32GB",
        "n_gpus": "96",
        "seq_len": "512",
        "precision": "fp16-mixed",
    }
    case = resolve(case_of_row({**row, "global_batch": global_batch}))
    assert case.candidate.micro_batch == micro_batch


def test_tokens_that_are_shared_say_nothing_of_how_weights_are() -> None:
    row = {
        "case_id": "a",
        "model": "llama-2-70b",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "32",
        "seq_len": "32768",
        "cp": "4",
    }
    case = resolve(
        case_of_row(
            {**row, "stack": "megatron-core", "micro_batch": "1", "task": "sft", "precision": "bf16-mixed"}
        )
    )
    assert case.candidate.sharding_stage == "zero3"
    assert any("zero3" in words for words in case.assumed)


SMALL = {
    "case_id": "a",
    "model": "tinyllama-1.1b",
    "gpu": "RTX 3090",
    "n_gpus": "1",
    "seq_len": "2048",
    "micro_batch": "2",
}
TRAINER = {"stack": "hf-trainer", "activation_checkpointing": "none", "flash_attention": "true"}


@pytest.mark.parametrize(
    ("precision", "fits", "words"), [("bf16", True, "pure 16 bits"), ("bf16-mixed", False, "")]
)
def test_bf16_that_would_not_fit_beside_fp32_weights_is_taken_for_16_bits_alone(
    precision: str, fits: bool, words: str
) -> None:
    answer = predict_row({**SMALL, **TRAINER, "precision": precision})
    assert answer.fits is fits
    assert any("pure 16 bits" in note for note in answer.assumed) == bool(words)
    roomy = predict_row({**SMALL, **TRAINER, "precision": precision, "gpu": "H100-SXM-80GB"})
    assert not any("pure 16 bits" in note for note in roomy.assumed)


def test_recomputing_is_tried_where_it_pays_by_larger_micro_batches() -> None:
    row = {
        "case_id": "a",
        "model": "qwen3-30b-a3b",
        "stack": "megatron-core",
        "gpu": "H100-SXM-80GB",
        "n_gpus": "8",
    }
    whole = predict_row({**row, "seq_len": "4096", "global_batch": "256"})
    without = predict_row(
        {**row, "seq_len": "4096", "global_batch": "256", "activation_checkpointing": "none"}
    )
    assert whole.fits
    assert whole.samples_per_s is not None
    assert without.samples_per_s is not None
    assert whole.samples_per_s > 1.2 * without.samples_per_s
