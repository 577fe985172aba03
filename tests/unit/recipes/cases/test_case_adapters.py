"""Test LoRA's rank and layers: those of the case, or else the framework's defaults, which are reported."""

from __future__ import annotations

import pytest

from recipes.cases.case import CaseError, case_of_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.cases.table_words import adapter_targets_of

ROW = {
    "case_id": "a",
    "model": "llama-3-8b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "1",
    "micro_batch": "1",
    "task": "lora",
}


def resolved(**changes: str) -> ResolvedCase:
    return resolve(case_of_row({**ROW, **changes}))


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        ("all-linear", "all"),
        ("q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "all"),
        ("attention", "attention"),
        ("q_proj,k_proj,v_proj,o_proj", "attention"),
        ("q,k,v,o", "attention"),
        ("qkv", "attention"),
        ("c_attn", "attention"),
        ("query-value", "query-value"),
        ("q_proj, v_proj", "query-value"),
        ("q,v", "query-value"),
        ("linear_qkv,linear_proj", "attention"),
        ("linear_qkv linear_proj linear_fc1 linear_fc2", "all"),
        ("attn.linear", "attention"),
        ("query_key_value,dense", "attention"),
        ("query_key_value, dense, dense_h_to_4h, dense_4h_to_h", "all"),
        ("query_key_value", "attention"),
        ("dense", "all"),
        ("Wqkv,out_proj", "attention"),
        ("Wqkv,out_proj,fc1,fc2", "all"),
        ("c_attn,c_fc", "all"),
        ("wq,wv", "query-value"),
        ("wq,wk,wv,wo", "attention"),
        ("wq,wk,wv,wo,w1,w2,w3", "all"),
        ("self_attn.q_proj mlp.down_proj", "all"),
        ("all attention layers", "attention"),
        ("all linear layers", "all"),
        ("linear", "all"),
        ("all", "all"),
    ],
)
def test_words_for_layers(words: str, targets: str) -> None:
    assert adapter_targets_of(words) == targets


def test_words_that_name_no_layer_are_refused_by_the_column() -> None:
    with pytest.raises(CaseError, match=r"^lora_targets is 'everywhere'"):
        adapter_targets_of("everywhere")


def test_stated_adapters_are_taken_and_larger_ones_need_more_memory() -> None:
    thin, thick = resolved(lora_rank="8", lora_targets="all"), resolved(lora_rank="256", lora_targets="all")
    fewer = resolved(lora_rank="256", lora_targets="query-value")
    assert [
        (item.stack.memory.adapter_rank, item.stack.memory.adapter_targets) for item in (thin, thick, fewer)
    ] == [
        (8, "all"),
        (256, "all"),
        (256, "query-value"),
    ]
    assert (
        thin.memory_of_case().optimizer < fewer.memory_of_case().optimizer < thick.memory_of_case().optimizer
    )
    assert not any(note.startswith("lora_") for note in thick.assumed)


@pytest.mark.parametrize(
    ("stack", "rank", "targets"), [("hf-trainer", 64, "all"), ("litgpt", 8, "query-value")]
)
def test_the_habit_of_the_framework_is_reported(stack: str, rank: int, targets: str) -> None:
    assert {f"lora_rank {rank}", f"lora_targets {targets}"} <= set(resolved(stack=stack).assumed)
    assert f"lora_rank {rank}" not in resolved(stack=stack, lora_rank="4").assumed


def test_adapters_of_a_task_that_has_none_are_reported_to_be_left_out() -> None:
    assert any("ignored: no adapters" in note for note in resolved(task="sft", lora_rank="8").assumed)
    assert not any("lora" in note for note in resolved(task="sft").assumed)
