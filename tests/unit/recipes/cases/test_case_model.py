"""The model of a published run by its name, sizes or number of parameters; or a refusal with its reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.cases.case import Case, CaseError
from recipes.cases.model import model_of
from recipes.cases.prediction import predict_row
from recipes.cases.typical_models import decoder_sizes, encoder_sizes, expert_sizes
from recipes.job.models.blocks import blocks_of
from recipes.job.models.counts import active_parameter_count, load_models, parameter_count
from recipes.job.models.names import find_model, model_named, size_in_name
from recipes.job.workload import TransformerModel, VisionModel


def transformer(**columns: object) -> TransformerModel:
    model = model_of(Case(case_id="x", **columns)).model  # type: ignore[arg-type]
    assert isinstance(model, TransformerModel)
    return model


SPELLINGS = {
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "Llama3-8B": "llama-3-8b",
    "LLAMA 3 8B (SFT)": "llama-3-8b",
    "llama31_8b": "llama-3.1-8b",
    "llama3p1_405b": "llama-3.1-405b",
    "Llama-3.3-70B-Instruct": "llama-3.1-70b",
    "Llama-3.1-405B proxy 21L": "llama-3.1-405b",
    "LLaMA-7B": "llama-2-7b",
    "LLAMA2-13B": "llama-2-13b",
    "vicuna-7b-v1.5": None,  # the version is not a word that we may pass over
    "Llama-4-Maverick-17B-128E-Instruct": "llama-4-maverick",
    "mistralai/Mistral-7B-v0.1": "mistral-7b",
    "mixtral_8x7b_tp1pp4ep8vpp8_release": "mixtral-8x7b",
    "Mixtral 8x22B": "mixtral-8x22b",
    "Qwen/Qwen-1_8B-Chat": "qwen-1.8b",
    "Qwen2.5-Coder-32B-Instruct": "qwen2.5-32b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "qwen3_235b_a22b": "qwen3-235b-a22b",
    "DeepSeek-V3-671B": "deepseek-v3",
    "deepseek-r1": "deepseek-v3",
    "DeepSeek-R1-Distill-Llama-70B": "llama-3.1-70b",
    "deepseekv3_proxy_flex_tp2pp2emp16etp1cp1_gb_200_release": "deepseek-v3",
    "deepseek-v2-lite": "deepseek-v2-lite",
    "kimi-k2": "kimi-k2",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "Grok-1-314B proxy 2L": "grok-1",
    "Nemotron-8B": "nemotron-3-8b",
    "nemotron-340b": "nemotron-4-340b",
    "nemotron-3-nano-30b-a3b(hybrid mamba)": "nemotron-3-nano-30b-a3b",
    "nemotron3_super_release_gb200_sm": "nemotron-3-super-120b-a12b",
    "GPT-3 175B": "gpt3-175b",
    "gpt3-1.3b": "gpt3-1.3b",
    "gpt3-13b": "gpt3-13b",
    "gpt2": "gpt2",
    "GPT-2 1.5B": "gpt2-xl",
    "gpt2-1B": None,
    "bigscience/bloomz-7b1": "bloom-7b1",
    "bigscience/T0_3B": "t5-v1.1-xl",
    "t5_11b_mcore_tp4_pp1": "t5-v1.1-xxl",
    "t5-11b": "t5-11b",
    "bert-large-uncased": "bert-large",
    "bert-base": "bert-base",
    "BERT": "bert-large",
    "gemma2-9b": "gemma-2-9b",
    "internlm2-chat-7b": "internlm2-7b",
    "baichuan2-13b-chat": "baichuan2-13b",
    "PowerMoE-3B": "powermoe-3b",
    "Mistral-7B MoE": None,
    "llama-like 3.57B": None,
    "7B dense": None,
    "": None,
    "resnet50": None,
}


@pytest.mark.parametrize(("name", "preset"), SPELLINGS.items())
def test_a_name_finds_its_preset_or_none(name: str, preset: str | None):
    model = model_named(name)
    assert (model.id if model else None) == preset


def test_no_two_presets_have_the_same_name():
    names = [name.replace("-", "") for model in load_models() for name in (model.id, *model.names)]
    assert len(names) == len(set(names))


@given(st.sampled_from(load_models()), st.sampled_from(["-", "_", " ", ""]), st.booleans())
def test_separators_case_and_what_was_done_do_not_matter(model, separator: str, upper: bool):
    name = f"org/{model.id.replace('-', separator)} pretrained"
    assert model_named(name.upper() if upper else name) == model


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("7B dense (name not stated)", 7),
        ("mpt-125m", 0.125),
        ("gpt-1T", 1000),
        ("llama-like 8.86B", 8.86),
        ("bert", None),
        ("a3b", None),
    ],
)
def test_a_size_in_a_name_is_read(name: str, billions: float | None):
    assert size_in_name(name) == (None if billions is None else pytest.approx(billions))


def test_a_proxy_keeps_the_kind_of_its_layers():
    model = transformer(model="Llama-3.1-405B proxy 7L", n_layers=7)
    assert model.layers == 7
    assert blocks_of(model)[0].products == blocks_of(find_model("llama-3.1-405b"))[0].products


def test_a_proxy_of_a_mixture_keeps_its_first_dense_layers_and_its_attention():
    model = transformer(
        model="deepseek-v3 proxy", family="moe", n_layers=14, n_experts=64, moe_topk=8, ffn_hidden=2048
    )
    assert blocks_of(model)[0].count == 3
    assert (model.experts, model.expert_ffn_hidden, model.ffn_hidden) == (64, 2048, 18432)
    assert model.key_value_latent == 512


def test_a_proxy_of_a_hybrid_keeps_the_share_of_each_kind_of_layer():
    model = transformer(model="nemotron-3-super", n_layers=44)
    assert [block.count for block in blocks_of(model) if not block.extra] == [20, 4, 20]


def test_sizes_of_a_row_go_before_those_of_the_preset():
    model = transformer(model="gpt-1.7B", n_layers=24, hidden=2048, n_heads=16, vocab=131072)
    assert (model.hidden, model.ffn_hidden, model.head_dim, model.vocab) == (2048, 8192, 128, 131072)


def test_the_width_of_a_mixture_is_that_of_one_expert():
    assert transformer(model="qwen3-30b-a3b", ffn_hidden=768) == find_model("qwen3-30b-a3b")


def test_positions_are_as_many_as_the_sequence_is_long():
    # 0.1741 B parameters in llm-foundry's table, where the sequence has 65536 tokens
    assert parameter_count(transformer(model="mpt-125m", seq_len=65_536)) / 1e9 == pytest.approx(
        0.1741, abs=1e-4
    )


def test_the_number_of_parameters_decides_whether_the_head_is_tied():
    assert parameter_count(transformer(model="falcon-7b", params_b=7.217)) == 7_217_189_760
    assert parameter_count(transformer(model="falcon-7b", params_b=6.92)) == 6_921_720_704
    # People say 12 B for this model.
    assert parameter_count(transformer(model="mt0-xxl", params_b=12.0)) == 12_921_057_280


def test_a_family_name_with_another_number_of_parameters_is_another_model():
    known = model_of(Case(case_id="x", model="GPT-3", params_b=13.0))
    assert isinstance(known.model, TransformerModel)
    assert parameter_count(known.model) / 1e9 == pytest.approx(13.0, rel=0.1)
    assert known.assumed


@pytest.mark.parametrize(
    ("columns", "gated", "tied"),
    [
        (
            {
                "n_layers": 32,
                "hidden": 6144,
                "n_heads": 48,
                "vocab": 131072,
                "params_b": 16.0,
                "model": "gpt-16B",
            },
            False,
            False,
        ),
        (
            {
                "n_layers": 36,
                "hidden": 3072,
                "n_heads": 24,
                "vocab": 51200,
                "params_b": 4.24,
                "model": "gpt2-4B",
            },
            False,
            True,
        ),
        (
            {
                "n_layers": 28,
                "hidden": 3072,
                "n_heads": 32,
                "ffn_hidden": 8192,
                "vocab": 131072,
                "params_b": 3.57,
            },
            True,
            True,
        ),
        (
            {
                "n_layers": 32,
                "hidden": 4096,
                "n_heads": 32,
                "ffn_hidden": 14336,
                "vocab": 131072,
                "params_b": 8.86,
            },
            True,
            False,
        ),
    ],
)
def test_the_number_of_parameters_decides_how_sizes_are_meant(
    columns: dict[str, object], gated: bool, tied: bool
):
    model = transformer(**columns)
    assert (model.gated_mlp, model.tied_embeddings) == (gated, tied)
    assert parameter_count(model) / 1e9 == pytest.approx(columns["params_b"], rel=0.015)


@pytest.mark.parametrize("params_b", [0.1, 0.5, 1.0, 3.0, 7.0, 22.0, 65.0, 180.0, 1000.0])
def test_a_number_of_parameters_alone_gives_a_usual_model_which_is_reported(params_b: float):
    for name in ("foo", "gpt-foo"):
        known = model_of(Case(case_id="x", model=name, params_b=params_b))
        assert isinstance(known.model, TransformerModel)
        assert parameter_count(known.model) / 1e9 == pytest.approx(params_b, rel=0.2)
        assert any("usual model" in words for words in known.assumed)


def test_active_parameters_size_a_mixture():
    model = transformer(model="foo", family="moe", params_b=21.0, params_active_b=3.0)
    assert parameter_count(model) / 1e9 == pytest.approx(21.0, rel=0.1)
    assert active_parameter_count(model) / 1e9 == pytest.approx(3.0, rel=0.25)


def test_a_row_that_states_the_whole_model_needs_no_assumptions():
    row = {
        "n_layers": 32,
        "hidden": 4096,
        "n_heads": 32,
        "n_kv_heads": 8,
        "ffn_hidden": 14336,
        "vocab": 32000,
    }
    assert model_of(Case(case_id="x", model="foo", **row)).assumed == ()  # type: ignore[arg-type]


def test_an_image_model_is_found_by_its_name():
    assert isinstance(model_of(Case(case_id="x", model="resnet50", family="cnn")).model, VisionModel)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"model": "foo"}, ("foo", "n_layers", "hidden", "params_b")),
        ({}, ("n_layers",)),
        ({"model": "foo", "n_layers": 12}, ("hidden",)),
        ({"model": "foo", "family": "cnn"}, ("foo", "image model")),
        ({"model": "foo", "n_layers": 2, "hidden": 100, "n_heads": 7}, ("hidden", "n_heads")),
    ],
)
def test_a_refusal_names_what_is_missing(columns: dict[str, object], words: tuple[str, ...]):
    with pytest.raises(CaseError) as error:
        model_of(Case(case_id="x", **columns))  # type: ignore[arg-type]
    assert all(word in str(error.value) for word in words)


_SIZES = st.fixed_dictionaries(
    {},
    optional={
        "params_b": st.floats(1e-4, 1e5),
        "params_active_b": st.floats(1e-4, 1e4),
        "n_layers": st.integers(1, 200),
        "hidden": st.integers(1, 40_000),
        "n_heads": st.integers(1, 256),
        "n_kv_heads": st.integers(1, 256),
        "ffn_hidden": st.integers(1, 10**6),
        "vocab": st.integers(1, 10**6),
        "n_experts": st.integers(1, 512),
        "moe_topk": st.integers(1, 64),
        "seq_len": st.integers(1, 10**6),
        "family": st.sampled_from(["dense", "moe", "encoder", "cnn", ""]),
    },
)


@given(st.one_of(st.sampled_from([model.id for model in load_models()]), st.text(max_size=30)), _SIZES)
def test_any_row_is_a_sound_model_or_refused(name: str, sizes: dict[str, object]):
    try:
        model = model_of(Case(case_id="x", model=name, **sizes)).model  # type: ignore[arg-type]
    except CaseError:
        return
    if isinstance(model, VisionModel):
        return
    assert parameter_count(model) > 0
    assert model.heads % model.kv_heads == 0
    assert 0 <= model.experts_per_token <= model.experts
    assert all(
        block.count > 0 and all(product.parameters > 0 for product in block.products)
        for block in blocks_of(model)
    )


@given(st.floats(1e-3, 1e5), st.floats(1e-3, 1e5))
def test_larger_models_are_wider_or_deeper(one: float, other: float):
    small, large = sorted((one, other))
    for sizes in (decoder_sizes, encoder_sizes, lambda count: expert_sizes(count, None, None, None)):
        few, many = sizes(small), sizes(large)
        assert few.layers * few.hidden <= many.layers * many.hidden * 1.3


def test_the_same_words_give_the_same_object():
    """Check that equal descriptions give the same model object, for caches of results by model."""
    columns = {"model": "Llama-3.1-405B proxy 21L", "n_layers": 21}
    assert transformer(**columns) is transformer(**columns)


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"model": "x", "n_layers": 32, "hidden": 4096, "n_heads": 32, "n_kv_heads": 5}, "n_kv_heads"),
        ({"model": "llama-3-8b", "n_kv_heads": 5}, "n_kv_heads"),
        ({"model": "x", "n_layers": 32, "hidden": 4096, "n_experts": 8, "moe_topk": 16}, "moe_topk"),
        ({"model": "mixtral-8x7b", "moe_topk": 16}, "moe_topk"),
    ],
)
def test_sizes_that_no_model_has_together_are_refused(columns: dict[str, object], column: str):
    with pytest.raises(CaseError, match=column):
        model_of(Case(case_id="x", **columns))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"model": "x", "n_layers": 32, "hidden": 4096, "params_b": 700.0}, True),
        ({"model": "x", "n_layers": 32, "hidden": 4096, "params_b": 6.7}, False),
        ({"model": "llama-3-70b", "params_b": 8.0}, True),
        ({"model": "llama-3-70b", "params_b": 70.0}, False),
    ],
)
def test_a_number_of_parameters_that_contradicts_the_rest_is_reported(columns: dict[str, object], said: bool):
    known = model_of(Case(case_id="x", **columns))  # type: ignore[arg-type]
    assert any("params_b" in words for words in known.assumed) == said


def test_sizes_of_a_row_change_a_model_of_a_file():
    own = {"mine.json": find_model("llama-3-8b")}
    known = model_of(Case(case_id="x", model="mine.json", n_layers=4), own)
    assert isinstance(known.model, TransformerModel)
    assert known.model.layers == 4


def test_the_sequence_of_a_vision_transformer_consists_of_patches() -> None:
    sizes = {"n_layers": "40", "hidden": "1408", "n_heads": "16", "ffn_hidden": "6144", "image_size": "224"}
    run = {"gpu": "A100-SXM-80GB", "n_gpus": "8", "micro_batch": "64", "global_batch": "512"}
    row = {"case_id": "v", "stack": "nemo", "model": "ViT g/14", "family": "encoder", **sizes, **run}
    assert "seq_len 257" in predict_row(row).assumed
    assert "seq_len 197" in predict_row(row | {"model": "ViT"}).assumed
    assert "seq_len 512" in predict_row(row | {"image_size": ""}).assumed
