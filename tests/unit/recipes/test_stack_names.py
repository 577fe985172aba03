"""Names under which people know software, and what each does by default."""

import pytest

from recipes.cases.prediction import predict_row

RUN = {
    "case_id": "1",
    "model": "llama-2-7b",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "8",
    "sharding": "fsdp",
    "micro_batch": "1",
    "grad_accum": "1",
}


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Megatron-DeepSpeed", "Megatron-DeepSpeed"),
        ("gpt-neox", "Megatron-DeepSpeed"),
        ("megatron-lm", "Megatron-LM core"),
        ("MaxText", "JAX"),
        ("paxml", "JAX"),
        ("nemo", "Megatron-LM core"),
        ("NeMo-Automodel", "NeMo Automodel"),
        ("llm-foundry", "MosaicML Composer"),
        ("prime-rl", "torchtitan"),
    ],
)
def test_a_name_means_one_framework(name, title):
    prediction = predict_row(RUN | {"stack": name})
    assert title in prediction.title
    assert not any(words.startswith("stack") for words in prediction.assumed)


def test_jax_recomputes_all_layers_and_torch_none_by_default():
    recomputed = {name: predict_row(RUN | {"stack": name}).layout.split(", ")[-1] for name in ("maxtext", "torch")}
    assert recomputed["maxtext"] == "checkpointing full"
    assert "checkpointing" not in recomputed["torch"]


def test_megatron_deepspeed_does_not_divide_norms_and_writes_scores_by_default():
    layout = RUN | {"sharding": "zero1", "tp": "8", "seq_len": "2048"}
    old, new = (predict_row(layout | {"stack": name}) for name in ("megatron-deepspeed", "megatron-core"))
    assert old.memory.activations > 1.5 * new.memory.activations
    assert old.step_time_s > new.step_time_s
