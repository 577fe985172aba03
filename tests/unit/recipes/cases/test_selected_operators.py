"""Selective recomputation by operator: attention's output and every second product's are kept."""

import pytest

from recipes.cases.case import case_of_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.job.models.blocks import blocks_of
from recipes.job.workload import TransformerModel
from recipes.predict.implementations import SavedBytes, kept_by, load_implementations

LLAMA = {
    "model": "llama-3-8b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
    "sharding": "fsdp",
    "stack": "torchtitan",
    "micro_batch": "1",
    "seq_len": "8192",
    "precision": "bf16-mixed",
    "activation_checkpointing": "selective",
}


def half_bytes(model: TransformerModel, saved: SavedBytes, *, compiled: bool, tensor: int = 1) -> float:
    kept = kept_by(
        blocks_of(model)[-1],
        saved,
        rms=True,
        rotary=True,
        tensor=tensor,
        split_norms=tensor > 1,
        adapted=None,
        quantised=False,
        fused=True,
        compiled=compiled,
    )
    return kept.half


def model_of(name: str) -> TransformerModel:
    model = resolve(case_of_row({**LLAMA, "model": name})).workload.model
    assert isinstance(model, TransformerModel)
    return model


def test_llama_keeps_queries_values_the_gate_and_what_attention_returns() -> None:
    """Products: wq, wk, wv, wo, w1, w3, w2 (torchtitan, models/llama3); a compiler drops the output of w2."""
    saved = load_implementations()["compiled"].kept("cast")
    stream, query, value, attention, gate, last = 4096, 4096, 1024, 4096, 14336, 4096
    elements = stream + query + value + attention + gate
    llama = model_of("llama-3-8b")
    assert half_bytes(llama, saved, compiled=True) == 2 * elements
    assert half_bytes(llama, saved, compiled=False) == 2 * (elements + last)
    assert half_bytes(llama, saved, compiled=False, tensor=4) == 2 * (elements + last) / 4


@pytest.mark.parametrize("name", ["gpt2", "mixtral-8x7b", "deepseek-v3", "bert-large"])
def test_no_model_keeps_more_by_operator_than_without_recomputation(name: str) -> None:
    model, saved = model_of(name), load_implementations()["rigtune-worker"].kept("cast")
    assert 0 < half_bytes(model, saved, compiled=True) <= half_bytes(model, saved, compiled=False)
    row = {**LLAMA, "model": name, "seq_len": "512", "n_gpus": "256"}
    kept = {mode: predict_row({**row, "activation_checkpointing": mode}) for mode in ("selective", "none")}
    assert kept["selective"].memory is not None
    assert kept["none"].memory is not None
    assert kept["selective"].memory.activations <= kept["none"].memory.activations


def test_a_compiled_step_of_torchtitan_needs_what_torchao_measured() -> None:
    """8 x MI300X 39.1 GiB and 8 x H100 47.6 GiB (older) reserved (pytorch/ao, float8 training benchmarks)."""
    answer = predict_row({**LLAMA, "compile": "true", "memory_figure": "reserved"})
    assert answer.peak_mem_gib is not None
    assert 39.1 < answer.peak_mem_gib < 47.6
