"""Files of users: a config.json becomes the preset of the same model; other files are refused."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import InputError
from recipes.job.models.blocks import blocks_of
from recipes.job.models.counts import load_models, parameter_count, root_parameter_count
from recipes.job.models.files import model_from_file
from recipes.job.models.hugging_face import ARCHITECTURES
from recipes.job.models.names import find_model
from tests.support.model_configs import FILES, LLAMA, NEMOTRON, Config, config


@pytest.mark.parametrize("model_id", FILES)
def test_a_config_is_the_preset_of_the_same_model(model_id: str):
    read, preset = (
        model_from_file(json.dumps(FILES[model_id]), "/models/mine/config.json"),
        find_model(model_id),
    )
    assert blocks_of(read) == blocks_of(preset)
    assert root_parameter_count(read) == root_parameter_count(preset)
    assert parameter_count(read) == parameter_count(preset)


MISTRAL = FILES["mistral-7b"]

QWEN2 = {"sliding_window": 4096, "max_window_layers": 20}


@pytest.mark.parametrize(
    ("changes", "local"),
    [
        ({}, 32),
        ({"sliding_window": None}, 0),
        ({"architectures": ["Phi3ForCausalLM"], "sliding_window": 2047}, 32),
        ({"architectures": ["Starcoder2ForCausalLM"]}, 32),
        ({"architectures": ["LlamaForCausalLM"]}, 0),
        ({"architectures": ["Qwen2ForCausalLM"], **QWEN2}, 0),
        ({"architectures": ["Qwen2ForCausalLM"], **QWEN2, "use_sliding_window": True}, 12),
        ({"architectures": ["Cohere2ForCausalLM"]}, 24),
        ({"layer_types": ["sliding_attention", "full_attention"] * 16}, 16),
    ],
)
def test_a_window_is_read_as_its_architecture_means_it(changes: Config, local: int):
    model = model_from_file(json.dumps(MISTRAL | changes), "config.json")
    assert model.local_layers == local
    assert bool(model.sliding_window) == bool(local)


def test_llama_4_attends_to_a_chunk_in_three_layers_of_four():
    text = LLAMA | {
        "attention_chunk_size": 8192,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "intermediate_size_mlp": 16384,
    }
    model = model_from_file(
        json.dumps({"architectures": ["Llama4ForConditionalGeneration"], "text_config": text}), "c.json"
    )
    assert (model.sliding_window, model.local_layers) == (8192, 24)


def test_a_file_without_architectures_is_read_by_its_type():
    typed = {name: value for name, value in LLAMA.items() if name != "architectures"} | {
        "model_type": "llama"
    }
    named = model_from_file(json.dumps(LLAMA), "mine/config.json")
    assert blocks_of(model_from_file(json.dumps(typed), "mine/config.json")) == blocks_of(named)


def test_sizes_that_a_multimodal_file_leaves_out_have_their_defaults():
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    read = model_from_file(
        json.dumps({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}), "c.json"
    )
    assert blocks_of(read) == blocks_of(find_model("gemma-3-4b"))


def test_glm_4_has_as_many_parameters_as_its_makers_say():
    sizes = {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True}
    model = model_from_file(
        json.dumps(config("Glm4ForCausalLM", 40, 4096, 32, 13696, 151552, **sizes)), "c.json"
    )
    assert parameter_count(model) / 1e9 == pytest.approx(9.4, abs=0.01)


@pytest.mark.parametrize(
    ("stated", "head_dim"),
    [({"head_dim": 96}, 96), ({"attention_head_dim": 112, "head_dim": 96}, 112), ({}, 84)],
)
def test_heads_of_nemotron_h_have_the_stated_size_or_a_share_of_the_width(stated: Config, head_dim: int):
    sizes = {name: value for name, value in NEMOTRON.items() if name != "head_dim"}
    file = config("NemotronHForCausalLM", 52, 2688, 32, 1856, 131072, **sizes, **stated)
    assert model_from_file(json.dumps(file), "c.json").head_dim == head_dim


@pytest.mark.parametrize(
    ("named", "word"),
    [
        ({"architectures": ["AlbertForMaskedLM"]}, "share"),
        ({"model_type": "deberta-v2"}, "relative"),
        ({"architectures": ["ViTForImageClassification"]}, "image"),
        ({"architectures": ["ResNetForImageClassification"]}, "image"),
        ({"architectures": ["MambaForCausalLM"]}, "state space"),
    ],
)
def test_a_model_that_cannot_be_described_is_refused_with_the_reason(named: Config, word: str):
    with pytest.raises(InputError) as error:
        model_from_file(json.dumps({"hidden_size": 768} | named), "config.json")
    assert word in error.value.message


def test_the_id_is_the_folder_of_a_config():
    assert model_from_file(json.dumps(LLAMA), "/models/mine/config.json").id == "mine"


def test_an_unknown_architecture_is_named_with_those_that_are_known():
    with pytest.raises(InputError) as error:
        model_from_file(json.dumps(LLAMA | {"architectures": ["ZebraForCausalLM"]}), "config.json")
    assert "ZebraForCausalLM" in error.value.message
    assert "LlamaForCausalLM" in error.value.hint


@given(st.sampled_from(load_models()))
def test_a_row_of_our_own_is_read_back(model):
    fields = {name: value for name, value in msgspec.to_builtins(model).items() if value is not None}
    text = "[[models]]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())
    assert model_from_file(text, "mine.toml") == model


def test_a_row_without_a_learning_rate_gets_a_published_one():
    fields = msgspec.to_builtins(find_model("llama-3-8b"))
    fields = {
        name: value for name, value in fields.items() if value is not None and "learning_rate" not in name
    }
    model = model_from_file(
        "\n".join(f"{name} = {json.dumps(value)}" for name, value in fields.items()), "mine.toml"
    )
    assert 0 < model.learning_rate < 0.01


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[]",
        "null",
        "[[models]]\nid = 'x'",
        "a = 1",
        json.dumps({"architectures": ["MixtralForCausalLM"]}),
        json.dumps({"architectures": []}),
        json.dumps(LLAMA | {"hidden_size": None}),
        json.dumps(LLAMA | {"hidden_size": 10**15}),
        json.dumps(LLAMA | {"hidden_size": "4096"}),
        json.dumps(LLAMA | {"num_key_value_heads": 7}),
        json.dumps(LLAMA | {"num_hidden_layers": 0}),
        json.dumps(LLAMA | {"num_hidden_layers": -3}),
        json.dumps(LLAMA | {"tie_word_embeddings": "yes"}),
        json.dumps(FILES["mixtral-8x7b"] | {"num_experts_per_tok": 9}),
        json.dumps(FILES["nemotron-3-nano-30b-a3b"] | {"mamba_num_heads": 0}),
        json.dumps(FILES["t5-11b"] | {"num_layers": 0}),
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_a_file_that_is_no_model_is_refused_by_name(text: str):
    with pytest.raises(InputError) as error:
        model_from_file(text, "broken.json")
    assert "broken.json" in error.value.message


@given(st.text())
def test_arbitrary_text_is_an_input_error(text: str):
    with pytest.raises(InputError):
        model_from_file(text, "any")


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**12),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.none(), max_size=2),
)


@given(st.sampled_from(sorted(ARCHITECTURES)), st.data())
def test_a_config_with_anything_in_it_is_a_sound_model_or_an_input_error(
    architecture: str, data: st.DataObject
):
    like = data.draw(st.sampled_from(sorted(FILES)))
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(FILES[like])), _VALUES, max_size=3))
    try:
        model = model_from_file(
            json.dumps({**FILES[like], **changed, "architectures": [architecture]}), "config.json"
        )
    except InputError:
        return
    assert parameter_count(model) > 0
    assert all(block.count > 0 for block in blocks_of(model))
