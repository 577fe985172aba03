"""Test that words of a case have the same meaning in all spellings, and that any word can be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.cases.case import CaseError
from recipes.cases.table_words import (
    checkpointing_of,
    numbers_of,
    offloads_weights,
    optimizer_of,
    sharing_of,
    step_of,
    steps_on_host,
    task_of,
)


@pytest.mark.parametrize(
    ("words", "precision", "mixed", "bits"),
    [
        ("bf16-mixed", "bf16", True, 16),
        ("bf16", "bf16", False, 16),
        ("BFloat16", "bf16", False, 16),
        ("bf16-true", "bf16", False, 16),
        ("16-mixed", "fp16", True, 16),
        ("fp16", "fp16", False, 16),
        ("amp", "fp16", True, 16),
        ("AMP (bf16)", "bf16", True, 16),
        ("mixed precision", "fp16", True, 16),
        ("tf32", "tf32", True, 16),
        ("fp32", "fp32", True, 16),
        ("32-true", "fp32", True, 16),
        ("fp8", "fp8", True, 16),
        ("bf16/fp8 hybrid", "fp8", True, 16),
        ("float8 tensorwise", "fp8", True, 16),
        ("FP8-MX", "mxfp8", True, 16),
        ("MXFP8", "mxfp8", True, 16),
        ("nvfp4", "nvfp4", True, 16),
        ("fp4", "nvfp4", True, 16),
        ("nf4", None, True, 4),
        ("bf16-true+bnb.nf4-dq", "bf16", False, 4),
        ("int4 GPTQ base, fp16 compute", "fp16", False, 4),
        ("int8", None, True, 8),
    ],
)
def test_precision(words: str, precision: str | None, mixed: bool, bits: int) -> None:
    assert numbers_of(words) == (precision, mixed, bits)


@pytest.mark.parametrize(
    ("words", "optimizer"),
    [
        ("AdamW", "adamw"),
        ("decoupled_adamw", "adamw"),
        ("adamw(fp32 states)", "adamw"),
        ("Fused Adam", "adamw"),
        ("adamw_bnb_8bit", "adamw-8bit"),
        ("paged_adamw_8bit", "adamw-8bit"),
        ("muon+adamw", "muon"),
        ("NVLAMB", "lamb"),
        ("LARS", "lars"),
        ("SGD momentum 0.9", "sgd"),
        ("Adafactor", "adafactor"),
        ("lion", "lion"),
        ("lion_8bit", "lion-8bit"),
        ("AdamW4bit (torchao)", "adamw-4bit"),
        ("paged_adamw_32bit", "adamw"),
        ("galore_adamw8bit_per_layer", "galore-8bit"),
        ("galore_adamw", "galore"),
        ("Adam-mini", "adam-mini"),
        ("LOMO", "lomo"),
    ],
)
def test_optimizer(words: str, optimizer: str) -> None:
    assert optimizer_of(words) == optimizer


@pytest.mark.parametrize(
    ("words", "kind", "pages"),
    [
        ("AdamW", "after", False),
        ("adamw_torch_fused", "fused", False),
        ("paged_adamw_8bit", "after", True),
        ("AdamW, optimizer in backward", "in-backward", False),
        ("PagedAdamW8bit in bwd", "in-backward", True),
        ("galore_adamw_layerwise", "in-backward", False),
    ],
)
def test_way_of_the_optimizers_step(words: str, kind: str, pages: bool) -> None:
    assert step_of(words) == (kind, pages)


@pytest.mark.parametrize(
    ("words", "tuning", "from_scratch"),
    [
        ("", "full", True),
        ("pretrain", "full", True),
        ("continued pre-training", "full", True),
        ("train", "full", True),
        ("sft", "full", False),
        ("Full Finetune", "full", False),
        ("instruction tuning", "full", False),
        ("dpo", "full", False),
        ("lora", "lora", False),
        ("LoRA fine-tuning", "lora", False),
        ("DoRA", "lora", False),
        ("QLoRA", "qlora", False),
    ],
)
def test_task(words: str, tuning: str, from_scratch: bool) -> None:
    task = task_of(words)
    assert (task.tuning, task.from_scratch, task.is_known) == (tuning, from_scratch, True)


def test_an_unknown_task_is_reported_to_be_unknown() -> None:
    assert task_of("weather forecast") == ("full", True, False)


@pytest.mark.parametrize(
    ("words", "sharding"),
    [
        ("", None),
        ("ddp", None),
        ("DistributedDataParallel", None),
        ("horovod", None),
        ("single", "none"),
        ("none", "none"),
        ("zero0", "none"),
        ("ZeRO-1", "zero1"),
        ("zero_2", "zero2"),
        ("DeepSpeed stage 3", "zero3"),
        ("deepspeed_zero3", "zero3"),
        ("deepspeed z3", "zero3"),
        ("distributed optimizer", "zero1"),
        ("fsdp", "zero3"),
        ("FSDP2", "zero3"),
        ("fsdp full shard", "zero3"),
        ("FULL_SHARD", "zero3"),
        ("fsdp_shard_grad_op", "zero2"),
        ("NO_SHARD", "none"),
        ("HSDP", "zero3"),
        ("HYBRID_SHARD", "zero3"),
        ("device_map", "none"),
        ("megatron 3d", None),
        ("tp8pp4", None),
    ],
)
def test_sharding(words: str, sharding: str | None) -> None:
    sharing = sharing_of(words)
    assert (sharing.sharding, sharing.is_known) == (sharding, True)


def test_further_meanings_of_the_word_for_sharding() -> None:
    assert sharing_of("hsdp").hybrid
    assert sharing_of("zero-offload").offload
    assert sharing_of("zero3_offload") == sharing_of("ZeRO-3 Offload")
    assert sharing_of("zero3_offload").offload
    assert sharing_of("naive model split").splits_layers
    assert not sharing_of("quantum entanglement").is_known


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("none", "none"),
        ("false", "none"),
        ("full", "full"),
        ("true", "full"),
        ("full (uniform, 1)", "full"),
        ("block", "full"),
        ("selective", "selective"),
        ("Selective (core_attn)", "selective"),
        ("op", "selective"),
        ("mlp", "selective"),
    ],
)
def test_checkpointing(words: str, kept: str) -> None:
    assert checkpointing_of(words) == kept


@given(st.text(max_size=60))
def test_any_word_is_read_or_refused_by_name(words: str) -> None:
    sharing_of(words)
    task_of(words)
    for column, read in (
        ("precision", numbers_of),
        ("optimizer", optimizer_of),
        ("activation_checkpointing", checkpointing_of),
    ):
        refusal = _refusal(read, words)
        assert refusal is None or refusal.startswith(f"{column} is ")


def test_a_refusal_names_each_optimizer_once() -> None:
    refusal = _refusal(optimizer_of, "quantum descent")
    assert refusal is not None
    names = refusal.partition("give one of ")[2].removesuffix(", or leave it blank").split(", ")
    assert len(names) == len(set(names)) > 1


def _refusal(read: Callable[[str], object], words: str) -> str | None:
    try:
        read(words)
    except CaseError as error:
        return str(error)
    return None


def test_a_stage_that_does_not_exist_is_not_known() -> None:
    assert not sharing_of("zero9").is_known
    assert sharing_of("zero").is_known


@pytest.mark.parametrize(
    ("words", "weights"),
    [
        ("fsdp offload", True),
        ("FSDP with CPU offload", True),
        ("zero3 offload", True),
        ("zero3 optimizer offload", False),
        ("ZeRO-3 offload_optimizer", False),
        ("zero3 offload_optimizer offload_param", True),
    ],
)
def test_offloading_means_weights_too_unless_the_optimizer_is_named(words: str, weights: bool) -> None:
    assert sharing_of(words).offload
    assert offloads_weights(words) == weights


@pytest.mark.parametrize(
    ("words", "moved"), [("DeepSpeedCPUAdam", True), ("AdamW (CPU offload)", True), ("AdamW", False)]
)
def test_an_optimizer_for_the_hosts_processors_keeps_its_states_there(words: str, moved: bool) -> None:
    assert steps_on_host(words) == moved


@pytest.mark.parametrize(
    "words", ["fsdp no offload", "fsdp without CPU offload", "zero3 (offload: false)", "no offload"]
)
def test_words_that_deny_offload_give_no_offload(words: str) -> None:
    assert not sharing_of(words).offload


def test_names_of_papers_are_what_they_share() -> None:
    assert (sharing_of("ZeRO-Offload").sharding, sharing_of("ZeRO-Offload").offload) == ("zero2", True)
    assert (sharing_of("MiCS").sharding, sharing_of("MiCS").hybrid) == ("zero3", True)
