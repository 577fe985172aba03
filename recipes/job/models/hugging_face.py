"""The models in `config.json` files of Hugging Face, by their architecture."""

from collections.abc import Callable
from typing import Any

import recipes.job.models.hugging_face_gpt as gpt
from recipes.job.models.hugging_face_config import Config, Sizes, decoder, experts_of, later_windows, windows


def _with(
    adapter: Callable[[Config], Sizes], others: Callable[[Config], Sizes] | None = None, **fields: Any
) -> Callable[[Config], Sizes]:
    """Return a reader that replaces some fields: by fields of `others`, and by fixed values."""
    return lambda config: adapter(config) | (others(config) if others else {}) | fields


def _windowed(adapter: Callable[[Config], Sizes], every: int) -> Callable[[Config], Sizes]:
    """Return a reader that gives layers local attention if the file states a window (see `windows`)."""
    return lambda config: windows(config, adapter(config), every)


def _qwen(config: Config) -> Sizes:
    sizes = decoder(config)
    width = sizes["ffn_hidden"]
    return sizes | {
        "ffn_hidden": width // 2 if width else None,  # the file counts gate and up together
        "qkv_bias": True,
    }


_mistral = _windowed(decoder, 0)
"""Sizes of Mistral v0.1 and Phi-3: if the file has a window, every layer has this window."""


def _qwen2(config: Config) -> Sizes:
    return later_windows(config, decoder(config) | {"qkv_bias": True})


def _qwen3(config: Config) -> Sizes:
    return _qwen2(config) | {"qkv_bias": config.flag("attention_bias"), "query_key_norm": "head"}


_moe = _with(decoder, experts_of)


def _qwen3_next(config: Config) -> Sizes:
    sizes = decoder(config) | experts_of(config)
    layers, kinds = sizes["layers"] or 0, config.items("layer_types")
    full = (
        sum(kind == "full_attention" for kind in kinds)
        if kinds
        else layers // (config.whole("full_attention_interval") or 4)
    )
    heads = config.whole("linear_num_value_heads") or 0
    return sizes | {
        "query_key_norm": "head",
        "attention_gate": True,
        "shared_expert_gate": True,
        "attention_layers": full,
        "feed_forward_layers": layers,
        "state_space_layers": layers - full,
        "state_space_kind": "gated-delta",
        "state_space_inner": heads * (config.whole("linear_value_head_dim") or 0),
        "state_space_heads": heads,
        "state_space_groups": config.whole("linear_num_key_heads"),
        "state_space_states": config.whole("linear_key_head_dim"),
        "state_space_convolution": config.whole("linear_conv_kernel_dim") or 4,
    }


def _gemma(config: Config) -> Sizes:
    return decoder(config) | {
        "head_dim": config.whole("head_dim") or 256,
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
    }


_GEMMA3 = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}
"""Defaults of Gemma3TextConfig (transformers), which files of the multimodal models omit."""


def _gemma3(config: Config) -> Sizes:
    text = config.part("text_config").beside(_GEMMA3)
    every = text.whole("sliding_window_pattern", "_sliding_window_pattern") or 6
    return windows(text, _gemma(text) | {"layer_norms": 4, "query_key_norm": "head"}, every)


def _latent_attention(config: Config) -> Sizes:
    """Return the sizes of DeepSeek V2 and V3, which have multi-head latent attention."""
    return (
        decoder(config)
        | experts_of(config)
        | {
            "kv_heads": config.whole("num_attention_heads"),
            "head_dim": config.whole("qk_nope_head_dim"),
            "query_latent": config.whole("q_lora_rank") or 0,
            "key_value_latent": config.whole("kv_lora_rank"),
            "rotary_head_dim": config.whole("qk_rope_head_dim"),
            "value_head_dim": config.whole("v_head_dim"),
            "router_correction": config.text("topk_method") == "noaux_tc",
            "prediction_layers": config.whole("num_nextn_predict_layers") or 0,
        }
    )


def _gpt_oss(config: Config) -> Sizes:
    fixed = {
        "qkv_bias": True,
        "other_biases": ["attention-output", "mlp", "router"],
        "attention_sinks": True,
    }
    return windows(config, decoder(config) | experts_of(config) | fixed, 2)


def _llama4(config: Config) -> Sizes:
    """Return the sizes of the text model: every n-th layer has experts; the others are dense and wider."""
    text = config.part("text_config")
    sizes, every = decoder(text) | experts_of(text), text.whole("interleave_moe_layer_step") or 1
    width, layers = sizes["ffn_hidden"] or 0, sizes["layers"] or 0
    sizes |= {
        "ffn_hidden": text.whole("intermediate_size_mlp") or width,
        "expert_ffn_hidden": width,
        "shared_ffn_hidden": width,
        "dense_layers": layers - layers // every,
        "other_biases": [],
    }
    return windows(text, sizes, text.whole("no_rope_layer_interval") or 4)


def _glm4_moe(config: Config) -> Sizes:
    norm = "head" if config.flag("use_qk_norm") is True else "none"
    return (
        decoder(config)
        | experts_of(config)
        | {"query_key_norm": norm, "other_biases": [], "router_correction": True}
    )


def _chatglm(config: Config) -> Sizes:
    groups = config.whole("multi_query_group_num") if config.flag("multi_query_attention") is True else None
    sizes = decoder(config)
    return sizes | {
        "kv_heads": groups or sizes["heads"],
        "head_dim": config.whole("kv_channels") or sizes["head_dim"],
        "qkv_bias": config.flag("add_qkv_bias"),
    }


def _dbrx(config: Config) -> Sizes:
    sizes = decoder(config)
    attention, mlp = config.part("attn_config"), config.part("ffn_config")
    return sizes | {
        "kv_heads": attention.whole("kv_n_heads") or sizes["heads"],
        "ffn_hidden": mlp.whole("ffn_hidden_size"),
        "experts": mlp.whole("moe_num_experts"),
        "experts_per_token": mlp.whole("moe_top_k"),
        "norm": "layernorm",
    }


def _stablelm(config: Config) -> Sizes:
    return decoder(config) | {
        "norm": "layernorm",
        "norm_bias": True,
        "qkv_bias": config.flag("use_qkv_bias"),
        "parallel_mlp": config.flag("use_parallel_residual"),
    }


def _cohere(config: Config) -> Sizes:
    return decoder(config) | {
        "norm": "layernorm",
        "parallel_mlp": True,
        "layer_norms": 1,
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
        "query_key_norm": "full" if config.flag("use_qk_norm") is True else "none",
    }


def _cohere2(config: Config) -> Sizes:
    return windows(config, _cohere(config), config.whole("sliding_window_pattern") or 4)


def _internlm(config: Config) -> Sizes:
    bias = config.flag("bias")
    return decoder(config) | {"qkv_bias": bias, "other_biases": ["attention-output"] if bias is True else []}


def _nemotron_h(config: Config) -> Sizes:
    pattern = config.text("hybrid_override_pattern")
    kinds = config.items("layers_block_type")
    letters = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
    pattern = pattern or "".join(letters.get(kind, "?") if isinstance(kind, str) else "?" for kind in kinds)
    heads = config.whole("mamba_num_heads") or 0
    sizes = decoder(config) | (experts_of(config) if "E" in pattern else {})
    return sizes | {
        "layers": len(pattern) or sizes["layers"],
        "head_dim": config.whole("attention_head_dim", "head_dim") or sizes["head_dim"],
        "gated_mlp": False,
        "attention_layers": pattern.count("*"),
        "feed_forward_layers": pattern.count("-") + pattern.count("E"),
        "dense_layers": pattern.count("-") if "E" in pattern else 0,
        "state_space_layers": pattern.count("M"),
        "state_space_inner": heads * (config.whole("mamba_head_dim") or 0),
        "state_space_heads": heads,
        "state_space_groups": config.whole("n_groups", "mamba_n_groups"),
        "state_space_states": config.whole("ssm_state_size"),
        "state_space_convolution": config.whole("conv_kernel") or 4,
        "expert_latent": config.whole("moe_latent_size") or 0,
        "prediction_layers": config.whole("num_nextn_predict_layers") or 0,
    }


ARCHITECTURES: dict[str, Callable[[Config], Sizes]] = {
    **dict.fromkeys(
        ("LlamaForCausalLM", "SmolLM3ForCausalLM", "SeedOssForCausalLM", "Ernie4_5ForCausalLM"), decoder
    ),
    **dict.fromkeys(("MistralForCausalLM", "Phi3ForCausalLM"), _mistral),
    "MixtralForCausalLM": _with(_mistral, experts_of),
    **dict.fromkeys(
        ("GraniteForCausalLM", "BaichuanForCausalLM", "BaiChuanForCausalLM", "InternLM2ForCausalLM"), decoder
    ),
    "InternLM3ForCausalLM": decoder,
    **dict.fromkeys(("GraniteMoeForCausalLM", "DeepseekForCausalLM"), _moe),
    "QWenLMHeadModel": _qwen,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen2MoeForCausalLM": _with(_qwen2, experts_of, shared_expert_gate=True),
    "Qwen3ForCausalLM": _qwen3,
    "Qwen3MoeForCausalLM": _with(_moe, query_key_norm="head"),
    "Qwen3NextForCausalLM": _qwen3_next,
    "GemmaForCausalLM": _gemma,
    "Gemma2ForCausalLM": _windowed(_with(_gemma, layer_norms=4), 2),
    "Gemma3ForCausalLM": _gemma3,
    "Gemma3ForConditionalGeneration": _gemma3,
    "Mistral3ForConditionalGeneration": lambda config: _mistral(config.part("text_config")),
    "Llama4ForConditionalGeneration": _llama4,
    "Llama4ForCausalLM": _llama4,
    "DeepseekV2ForCausalLM": _latent_attention,
    "DeepseekV3ForCausalLM": _latent_attention,
    "GptOssForCausalLM": _gpt_oss,
    "Glm4MoeForCausalLM": _glm4_moe,
    "Glm4ForCausalLM": _with(decoder, layer_norms=4, other_biases=[]),
    "GlmForCausalLM": _with(decoder, other_biases=[]),
    "ChatGLMModel": _chatglm,
    "ChatGLMForConditionalGeneration": _chatglm,
    "DbrxForCausalLM": _dbrx,
    "GPT2LMHeadModel": gpt.gpt2,
    "GPTBigCodeForCausalLM": gpt.gpt2,
    "GPTNeoForCausalLM": gpt.gpt_neo,
    "GPTJForCausalLM": gpt.gpt_j,
    "GPTNeoXForCausalLM": gpt.gpt_neox,
    "FalconForCausalLM": gpt.falcon,
    "MPTForCausalLM": gpt.mpt,
    "OPTForCausalLM": gpt.opt,
    "BloomForCausalLM": gpt.bloom,
    "PhiForCausalLM": gpt.phi,
    "PhimoeForCausalLM": gpt.phimoe,
    "PhiMoEForCausalLM": gpt.phimoe,
    "Starcoder2ForCausalLM": gpt.starcoder2,
    "StableLmForCausalLM": _stablelm,
    "CohereForCausalLM": _cohere,
    "Cohere2ForCausalLM": _cohere2,
    "InternLMForCausalLM": _internlm,
    "OlmoForCausalLM": _with(decoder, layer_norms=0, final_norm=False),
    "Olmo2ForCausalLM": _with(decoder, query_key_norm="full"),
    "Olmo3ForCausalLM": _windowed(_with(decoder, query_key_norm="full"), 4),
    "OlmoeForCausalLM": _with(_moe, query_key_norm="full"),
    "NemotronForCausalLM": _with(decoder, gated_mlp=False, norm="layernorm", norm_bias=True),
    "NemotronHForCausalLM": _nemotron_h,
    **{
        f"{name}{head}": _with(gpt.bert, pooler=True)
        for name in ("Bert", "Roberta", "XLMRoberta")
        for head in ("Model", "ForMaskedLM")
    },
    "BertForPreTraining": _with(gpt.bert, pooler=True),
    "DistilBertModel": gpt.bert,
    "DistilBertForMaskedLM": gpt.bert,
    "ElectraModel": gpt.bert,
    "ElectraForPreTraining": gpt.bert,
    "T5ForConditionalGeneration": gpt.t5,
    "MT5ForConditionalGeneration": gpt.t5,
    "UMT5ForConditionalGeneration": gpt.t5,
    "T5WithLMHeadModel": gpt.t5,
    "BartModel": gpt.bart,
    "BartForConditionalGeneration": gpt.bart,
}
"""Function that reads the sizes of each architecture, by the architecture's name in the file."""


MODEL_TYPES = {
    "bart": "BartModel",
    "bert": "BertForMaskedLM",
    "bloom": "BloomForCausalLM",
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "distilbert": "DistilBertModel",
    "electra": "ElectraModel",
    "falcon": "FalconForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "gemma3_text": "Gemma3ForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neo": "GPTNeoForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "gptj": "GPTJForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4": "Llama4ForConditionalGeneration",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "mpt": "MPTForCausalLM",
    "mt5": "MT5ForConditionalGeneration",
    "nemotron_h": "NemotronHForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "opt": "OPTForCausalLM",
    "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "roberta": "RobertaForMaskedLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "xlm-roberta": "XLMRobertaForMaskedLM",
}
"""Architecture of each type; the pairs come from transformers (models/auto/modeling_auto.py)."""

UNREAD = {
    "albert": "its layers share one set of weights, which rigtune cannot count",
    "deberta": "its attention has products with relative positions, which rigtune cannot count",
    "mamba|rwkv|jamba|zamba|falcon_?mamba": "rigtune cannot count its state space or recurrent layers",
    "vit|deit|beit|swin|dino|clip|siglip": "it is an image model",
    "resnet|convnext|efficientnet|mobilenet|regnet": "it is an image model",
}
"""Reason why an architecture is not supported, by the beginning of its name or type."""
