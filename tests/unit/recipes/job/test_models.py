"""Test the parameters of presets against published counts, and their FLOPs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.job.models.blocks import blocks_of
from recipes.job.models.counts import (
    active_parameter_count,
    attention_flops_per_token,
    flops_per_token,
    load_models,
    matmul_parameter_count,
    parameter_count,
    root_parameter_count,
)
from recipes.job.models.names import find_model

PUBLISHED = {
    # Number of elements in the safetensors of the model page on huggingface.co, tied weights once
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "opt-125m": 125_239_296,
    "opt-350m": 331_196_416,
    "opt-1.3b": 1_315_758_080,
    "opt-6.7b": 6_658_473_984,
    "opt-13b": 12_853_473_280,
    "bloom-560m": 559_214_592,
    "bloom-7b1": 7_069_016_064,
    "bloom-176b": 176_247_271_424,
    "gpt-neo-1.3b": 1_315_575_808,
    "gpt-j-6b": 6_050_882_784,
    "gpt-neox-20b": 20_554_567_680,
    "pythia-70m": 70_426_624,
    "pythia-1.4b": 1_414_647_808,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "falcon-7b": 6_921_720_704,
    "phi-1.5": 1_418_270_720,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "phi-3-medium": 13_960_238_080,
    "phi-3.5-moe": 41_873_153_344,
    "phi-4": 14_659_507_200,
    "phi-4-mini": 3_836_021_760,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-270m": 268_098_176,
    "gemma-3-1b": 999_885_952,
    "tinyllama-1.1b": 1_100_048_384,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-30b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "codellama-34b": 33_743_970_304,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "mistral-large-123b": 122_610_069_504,
    "mixtral-8x7b": 46_702_792_704,
    "yi-6b": 6_061_035_520,
    "yi-34b": 34_388_917_248,
    "baichuan2-7b": 7_505_973_248,
    "baichuan2-13b": 13_896_668_160,
    "chatglm3-6b": 6_243_584_000,
    "glm-4-9b": 9_399_951_360,
    "internlm2-7b": 7_737_708_544,
    "internlm2-20b": 19_861_149_696,
    "stablelm-2-1.6b": 1_644_515_328,
    "stablelm-3b": 2_795_443_200,
    "olmo-1b": 1_176_764_416,
    "olmo-7b": 6_888_095_744,
    "olmo-2-7b": 7_298_617_344,
    "olmo-2-13b": 13_716_198_400,
    "olmoe-1b-7b": 6_919_161_856,
    "smollm-135m": 134_515_008,
    "smollm-360m": 361_821_120,
    "smollm-1.7b": 1_711_376_384,
    "smollm3-3b": 3_075_098_624,
    "granite-3.0-8b": 8_170_848_256,
    "starcoder-15b": 15_517_456_384,
    "starcoder2-3b": 3_030_371_328,
    "starcoder2-7b": 7_173_923_840,
    "starcoder2-15b": 15_957_889_024,
    "command-r-35b": 34_980_831_232,
    "command-r-plus-104b": 103_810_674_688,
    "aya-23-8b": 8_028_033_024,
    "dbrx-132b": 131_596_523_520,
    "qwen-7b": 7_721_324_544,
    "qwen-14b": 14_167_290_880,
    "qwen-72b": 72_287_920_128,
    "qwen1.5-0.5b": 463_987_712,
    "qwen1.5-4b": 3_950_369_280,
    "qwen1.5-32b": 32_512_218_112,
    "qwen1.5-110b": 111_209_914_368,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-coder-480b-a35b": 480_154_875_392,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "deepseek-llm-7b": 6_910_365_696,
    "deepseek-moe-16b": 16_375_728_128,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200,  # without its layer for multi-token prediction
    "kimi-k2": 1_026_408_232_448,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "nemotron-h-8b": 8_100_852_736,
    "nemotron-nano-v2-9b": 8_888_227_328,
    "nemotron-3-nano-30b-a3b": 31_577_937_344,
    "mamba2-130m": 128_989_632,
    "mamba2-2.7b": 2_702_599_680,
    # Bare models, as transformers counts them
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlm-roberta-base": 278_043_648,
    "xlm-roberta-large": 559_890_432,
    "distilbert-base": 66_362_880,
    "electra-base": 108_891_648,
    "electra-large": 334_092_288,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5-v1.1-base": 247_577_856,
    "t5-v1.1-xl": 2_849_757_184,
    "t5-v1.1-xxl": 11_135_332_352,
    "mt5-small": 300_176_768,
    "mt5-xxl": 12_921_057_280,
    "bart-base": 139_420_416,
    "bart-large": 406_291_456,
}

BILLIONS = {
    # Billions of parameters that papers and model cards print: of all parameters and, for a mixture of
    # experts, of those that one token uses
    "gpt3-175b": (174.6, None),
    "megatron-gpt-18b": (18.4, None),
    "megatron-gpt-39b": (39.1, None),
    "megatron-gpt-145b": (145.6, None),
    "megatron-gpt-310b": (310.1, None),
    "mt-nlg-530b": (529.6, None),
    "megatron-gpt-1t": (1008.0, None),
    "palm-540b": (540.35, None),
    "nemotron-4-15b": (15.6, None),
    "nemotron-4-340b": (341.0, None),
    "nemotron-h-56b": (56.3, None),
    "nemotron-3-super-120b-a12b": (120.6, 12.7),
    "nemotron-3-ultra-550b-a55b": (550.0, 55.0),
    "grok-1": (314.0, 86.0),
    "llama-4-scout": (109.0, 17.0),
    "llama-4-maverick": (400.0, 17.0),
    "mixtral-8x7b": (46.7, 12.9),
    "mixtral-8x22b": (141.0, 39.0),
    "deepseek-v2": (236.0, 21.0),
    "deepseek-v3": (671.0, 37.0),
    "deepseek-v4-flash": (284.0, 13.0),
    "kimi-k2": (1026.0, 32.0),
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235.0, 22.0),
    "gpt-oss-120b": (116.8, 5.7),
    "powerlm-3b": (3.51, None),
    "powermoe-3b": (3.3, 0.88),
    "glm-4.5-air": (106.0, 12.0),
    "mpt-7b": (6.66, None),
}

MODELS = st.sampled_from(load_models())


@pytest.mark.parametrize(("model_id", "count"), PUBLISHED.items())
def test_parameters_equal_the_published_count(model_id: str, count: int):
    assert parameter_count(find_model(model_id)) == count


@pytest.mark.parametrize(("model_id", "billions"), BILLIONS.items())
def test_parameters_are_near_the_printed_figures(model_id: str, billions: tuple[float, float | None]):
    model = find_model(model_id)
    assert parameter_count(model) / 1e9 == pytest.approx(billions[0], rel=0.015)
    if billions[1] is not None:
        assert active_parameter_count(model) / 1e9 == pytest.approx(billions[1], rel=0.12)


def test_every_preset_says_where_it_comes_from():
    assert all(model.source and model.date for model in load_models())
    assert all(model.learning_rate > 0 and model.learning_rate_batch_tokens > 0 for model in load_models())


def test_no_two_presets_share_an_id():
    ids = [model.id for model in load_models()]
    assert len(ids) == len(set(ids))


@given(MODELS)
def test_sizes_agree_with_each_other(model):
    assert model.heads % model.kv_heads == 0
    assert model.sequence_length <= (model.learned_positions or model.sequence_length)
    assert model.experts_per_token <= model.experts
    assert all(block.count > 0 for block in blocks_of(model))


@given(MODELS)
def test_parameters_of_layers_and_root_add_up_to_those_of_the_model(model):
    counted = [block for block in blocks_of(model) if not block.extra]
    layers = sum(block.count * block.parameters for block in counted)
    assert layers + root_parameter_count(model) == parameter_count(model)


def test_a_layer_of_llama_has_its_known_size():
    model = find_model("llama-3-8b")
    assert parameter_count(model) - root_parameter_count(model) == model.layers * 218_112_000


@given(MODELS)
def test_a_token_uses_at_most_all_parameters(model):
    assert 0 < active_parameter_count(model) <= parameter_count(model)
    if not model.is_moe:
        assert active_parameter_count(model) == parameter_count(model)


@given(MODELS, st.integers(1, 10**6))
def test_flops_grow_with_the_sequence(model, length: int):
    assert flops_per_token(model, length) >= 6 * matmul_parameter_count(model)
    assert attention_flops_per_token(model, 2 * length) >= attention_flops_per_token(model, length)


def test_flops_follow_the_causal_convention():
    # Llama-3-8B at 8192: 45.0 GFLOP of matrix products and 6.4 GFLOP of causal attention per token
    model = find_model("llama-3-8b")
    assert 6 * matmul_parameter_count(model) == pytest.approx(45.0e9, rel=0.002)
    assert flops_per_token(model, 8192) - 6 * matmul_parameter_count(model) == pytest.approx(
        6.44e9, rel=0.002
    )
    assert attention_flops_per_token(model, 8192) == 6 * model.layers * model.hidden * 8192


def test_attention_of_an_encoder_is_full():
    # 12 L h s per token
    assert attention_flops_per_token(find_model("bert-large"), 512) == 12 * 24 * 1024 * 512


def test_a_window_ends_the_growth_of_attention():
    model = find_model("gemma-2-9b")
    everywhere = msgspec.structs.replace(model, local_layers=model.layers)
    assert attention_flops_per_token(everywhere, 65_536) == attention_flops_per_token(everywhere, 32_768)
    assert (
        attention_flops_per_token(model, 65_536)
        < attention_flops_per_token(find_model("gemma-7b"), 65_536) * 2
    )


def test_a_token_of_a_mixture_computes_with_its_own_experts_alone():
    # Mixtral 8x7B: 12.88e9 active parameters, of which 0.13e9 are looked up
    assert matmul_parameter_count(find_model("mixtral-8x7b")) == pytest.approx(12.75e9, rel=0.001)


def test_latent_attention_has_wider_scores_than_values():
    attention = blocks_of(find_model("deepseek-v3"))[0].attention[0]
    assert (attention.query_key_dim, attention.value_dim, attention.kv_heads) == (192, 128, 128)


def test_a_hybrid_has_each_kind_of_layer():
    model = find_model("nemotron-3-nano-30b-a3b")
    counts = [
        (block.count, bool(block.attention), block.state_space is not None) for block in blocks_of(model)
    ]
    assert counts == [(23, False, True), (6, True, False), (23, False, False)]


def test_an_encoder_decoder_attends_to_the_encoder():
    encoder, decoder = blocks_of(find_model("t5-11b"))
    assert [item.cross for item in encoder.attention] == [False]
    assert [item.cross for item in decoder.attention] == [False, True]
    assert (encoder.tokens, decoder.tokens) == (1.0, 0.25)


def test_layers_for_later_tokens_count_as_work_and_not_as_parameters():
    extra = [block for block in blocks_of(find_model("deepseek-v3")) if block.extra]
    assert [block.count for block in extra] == [1]
    assert extra[0].parameters > 11e9


def test_a_name_nearly_right_gets_a_suggestion():
    with pytest.raises(UsageError) as error:
        find_model("llama-3-8c")
    assert "llama-3-8c" in error.value.message
    assert "did you mean llama-3-8b" in error.value.hint


@pytest.mark.parametrize("name", ["llama3-8b", "Llama 3 8B", "meta-llama/Llama-3-8B"])
def test_the_spelling_does_not_matter(name: str):
    assert find_model(name).id == "llama-3-8b"


@pytest.mark.parametrize("name", ["gpt2\n", " GPT2 "])
def test_case_and_blanks_do_not_matter(name: str):
    assert find_model(name).id == "gpt2"


@pytest.mark.parametrize("name", ["", "x" * 10_000, "日本", "gpt2\0"])
def test_a_strange_name_is_refused_in_one_short_line(name: str):
    with pytest.raises(UsageError) as error:
        find_model(name)
    assert len(error.value.message) < 200
    assert len(error.value.hint) < 300
