"""Test that a plan calls only a model's own recipe the published one."""

from __future__ import annotations

import json
import re

import pytest

from assistant.cli import command_line
from recipes.job.models.counts import load_models

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


def _decisions(capsys, model):
    plan = ["plan", str(model), "--machine", "dgx-h100", "--nodes", "16", "--format", "json"]
    assert command_line(plan) == 0
    plan = json.loads(capsys.readouterr().out)
    return {row["name"]: row["because"] for row in plan["decisions"]}


@pytest.mark.parametrize(
    ("model", "owner"),
    [
        ("llama-3-8b", ""),
        ("llama-2-7b", ""),
        ("tinyllama-1.1b", ""),
        ("gpt3-1.3b", ""),
        ("gpt3-5b", "GPT-3 6.7B"),
        ("gpt2", "GPT-3 125M"),
        ("llama-3.2-1b", "GPT-3 1.3B"),
        ("mistral-7b", "Llama 2 7B"),
        ("qwen2.5-7b", "Llama 2 7B"),
        ("mixtral-8x7b", "GPT-3"),
        ("gemma-2-9b", "GPT-3"),
        ("bert-large", ""),
        ("electra-base", "BERT base"),
        ("t5-base", "Megatron-LM's T5 220M"),
        ("config.json", "GPT-3 1.3B"),
    ],
)
def test_a_recipe_borrowed_from_another_model_is_named_as_borrowed(capsys, tmp_path, model, owner):
    if model == "config.json":
        model = tmp_path / model
        model.write_text(json.dumps(CONFIG))
    because = _decisions(capsys, model)
    words = because["learning_rate"], because["global_batch"]
    if owner:
        assert words[0].startswith(f"borrowed from {owner}")
        assert f"the recipe borrowed from {owner}" in words[1]
        assert not any("published recipe" in word for word in words)
    else:
        assert all("the published recipe" in word for word in words)
        assert not any("borrowed" in word for word in words)


def test_a_rate_in_the_user_s_own_row_is_their_own(capsys, tmp_path):
    sizes = {"layers": 2, "hidden": 64, "heads": 2, "kv_heads": 2, "head_dim": 32, "ffn_hidden": 128}
    names = {"id": "mine", "title": "Mine", "source": "me", "date": "2026-11-20", "vocab": 1000}
    rate = {"learning_rate": 0.002, "learning_rate_batch_tokens": 65536, "sequence_length": 128}
    (tmp_path / "mine.json").write_text(json.dumps({**sizes, **names, **rate}))
    because = _decisions(capsys, tmp_path / "mine.json")
    assert because["learning_rate"].startswith("the published recipe: 0.002")


@pytest.mark.parametrize("model", load_models(), ids=lambda model: model.id)
def test_a_source_without_a_published_rate_names_whose_it_is(model):
    """The words of the source and the field agree, so that a new row cannot leave one out."""
    names_another = re.search(r"no learning rate published|learning rate: |learning rate of ", model.source)
    assert bool(model.learning_rate_from) == bool(names_another) or model.title.startswith("GPT-3 ")
