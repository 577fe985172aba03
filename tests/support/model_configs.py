"""Files `config.json` of published models, with the fields that their architectures need."""

from __future__ import annotations

Config = dict[str, object]


def config(architecture: str, *sizes: int | None, **more: object) -> Config:
    """Return a config with the usual names of layers, width, heads, MLP width and vocabulary."""
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
    given_sizes = {name: size for name, size in zip(names, sizes, strict=True) if size is not None}
    return {"architectures": [architecture], **given_sizes, "max_position_embeddings": 4096, **more}


def gpt2(architecture: str, *sizes: int, **more: object) -> Config:
    names = ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size")
    return {"architectures": [architecture], **dict(zip(names, sizes, strict=True)), **more}


def t5(architecture: str, *sizes: int, **more: object) -> Config:
    names = ("num_layers", "d_model", "num_heads", "d_kv", "d_ff", "vocab_size")
    return {"architectures": [architecture], **dict(zip(names, sizes, strict=True)), **more}


LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}

LLAMA = config(
    "LlamaForCausalLM", 32, 4096, 32, 14336, 128256, num_key_value_heads=8, tie_word_embeddings=False
)

GPT_OSS = {
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "head_dim": 64,
    "num_key_value_heads": 8,
    "sliding_window": 128,
}

QWEN3_MOE = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "head_dim": 128}

GLM = {
    "num_layers": 28,
    "padded_vocab_size": 65024,
    "ffn_hidden_size": 13696,
    "multi_query_group_num": 2,
    "seq_length": 8192,
}

NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"

NEMOTRON = {
    "hybrid_override_pattern": NANO,
    "head_dim": 128,
    "num_key_value_heads": 2,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
}

NEXT = {
    "head_dim": 256,
    "num_key_value_heads": 2,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}

SCOUT = config(
    "x", 48, 5120, 40, 8192, 202048, intermediate_size_mlp=16384, head_dim=128, num_key_value_heads=8
)
SCOUT |= {"num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1}

MAVERICK = SCOUT | {"num_local_experts": 128, "interleave_moe_layer_step": 2}

GEMMA3 = config("x", 62, 5376, 32, 21504, 262208, head_dim=128, num_key_value_heads=16, sliding_window=1024)

BERT = {"type_vocab_size": 2, "max_position_embeddings": 512}

V3 = {
    "first_k_dense_replace": 3,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
}
V3 |= {
    "n_shared_experts": 1,
    "q_lora_rank": 1536,
    "topk_method": "noaux_tc",
    "num_nextn_predict_layers": 1,
    **LATENT,
}

V2 = {
    "first_k_dense_replace": 1,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
}
V2 |= {"n_shared_experts": 2, "q_lora_rank": None, **LATENT}

FILES: dict[str, Config] = {
    "llama-3-8b": LLAMA,
    "llama-3.2-1b": LLAMA
    | {"num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192, "tie_word_embeddings": True},
    "mistral-7b": config(
        "MistralForCausalLM", 32, 4096, 32, 14336, 32000, num_key_value_heads=8, sliding_window=4096
    ),
    "mistral-7b-v0.3": config(
        "MistralForCausalLM", 32, 4096, 32, 14336, 32768, num_key_value_heads=8, sliding_window=None
    ),
    "mixtral-8x7b": config(
        "MixtralForCausalLM",
        32,
        4096,
        32,
        14336,
        32000,
        num_key_value_heads=8,
        num_local_experts=8,
        num_experts_per_tok=2,
    ),
    "mistral-small-24b": {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "text_config": config("x", 40, 5120, 32, 32768, 131072, num_key_value_heads=8, head_dim=128),
    },
    "qwen-7b": config("QWenLMHeadModel", 32, 4096, 32, 22016, 151936),
    "qwen2.5-0.5b": config(
        "Qwen2ForCausalLM", 24, 896, 14, 4864, 151936, num_key_value_heads=2, tie_word_embeddings=True
    ),
    "qwen1.5-moe-a2.7b": config(
        "Qwen2MoeForCausalLM",
        24,
        2048,
        16,
        5632,
        151936,
        num_experts=60,
        num_experts_per_tok=4,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
    ),
    "qwen3-8b": config("Qwen3ForCausalLM", 36, 4096, 32, 12288, 151936, num_key_value_heads=8, head_dim=128),
    "qwen3-30b-a3b": config(
        "Qwen3MoeForCausalLM", 48, 2048, 32, 6144, 151936, num_key_value_heads=4, **QWEN3_MOE
    ),
    "qwen3-next-80b-a3b": config("Qwen3NextForCausalLM", 48, 2048, 16, 5120, 151936, **NEXT),
    "gemma-7b": config("GemmaForCausalLM", 28, 3072, 16, 24576, 256000, num_key_value_heads=16, head_dim=256),
    "gemma-2-9b": config(
        "Gemma2ForCausalLM",
        42,
        3584,
        16,
        14336,
        256000,
        num_key_value_heads=8,
        head_dim=256,
        sliding_window=4096,
    ),
    "gemma-3-27b": {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": GEMMA3},
    "llama-4-scout": {"architectures": ["Llama4ForConditionalGeneration"], "text_config": SCOUT},
    "llama-4-maverick": {"architectures": ["Llama4ForConditionalGeneration"], "text_config": MAVERICK},
    "deepseek-v3": config("DeepseekV3ForCausalLM", 61, 7168, 128, 18432, 129280, **V3),
    "deepseek-v2-lite": config("DeepseekV2ForCausalLM", 27, 2048, 16, 10944, 102400, **V2),
    "gpt-oss-20b": config("GptOssForCausalLM", 24, 2880, 64, 2880, 201088, attention_bias=True, **GPT_OSS),
    "chatglm3-6b": config(
        "ChatGLMModel", 28, 4096, 32, None, 65024, multi_query_attention=True, add_qkv_bias=True, **GLM
    ),
    "dbrx-132b": {
        "architectures": ["DbrxForCausalLM"],
        "n_layers": 40,
        "d_model": 6144,
        "n_heads": 48,
        "vocab_size": 100352,
        "max_seq_len": 32768,
        "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    },
    "gpt2": gpt2("GPT2LMHeadModel", 12, 768, 12, 1024, 50257),
    "starcoder-15b": gpt2(
        "GPTBigCodeForCausalLM", 40, 6144, 48, 8192, 49152, multi_query=True, n_inner=24576
    ),
    "gpt-j-6b": gpt2("GPTJForCausalLM", 28, 4096, 16, 2048, 50400, tie_word_embeddings=False),
    "gpt-neo-1.3b": {
        "architectures": ["GPTNeoForCausalLM"],
        "num_layers": 24,
        "hidden_size": 2048,
        "num_heads": 16,
        "vocab_size": 50257,
        "max_position_embeddings": 2048,
        "window_size": 256,
        "attention_types": [[["global", "local"], 12]],
    },
    "gpt-neox-20b": config("GPTNeoXForCausalLM", 44, 6144, 64, 24576, 50432),
    "falcon-7b": config(
        "FalconForCausalLM", 32, 4544, 71, None, 65024, multi_query=True, new_decoder_architecture=False
    ),
    "falcon-40b": config(
        "FalconForCausalLM", 60, 8192, 128, None, 65024, num_kv_heads=8, new_decoder_architecture=True
    ),
    "mpt-7b": {
        "architectures": ["MPTForCausalLM"],
        "n_layers": 32,
        "d_model": 4096,
        "n_heads": 32,
        "vocab_size": 50368,
        "max_seq_len": 2048,
        "no_bias": False,
        "attn_config": {"alibi": False},
    },
    "opt-350m": config("OPTForCausalLM", 24, 1024, 16, None, 50272, ffn_dim=4096, word_embed_proj_dim=512)
    | {"do_layer_norm_before": False, "max_position_embeddings": 2048},
    "opt-13b": config(
        "OPTForCausalLM", 40, 5120, 40, None, 50272, ffn_dim=20480, max_position_embeddings=2048
    ),
    "bloom-7b1": {
        "architectures": ["BloomForCausalLM"],
        "n_layer": 30,
        "n_embed": 4096,
        "n_head": 32,
        "vocab_size": 250880,
    },
    "phi-2": config("PhiForCausalLM", 32, 2560, 32, 10240, 51200),
    "phi-3-mini": config("Phi3ForCausalLM", 32, 3072, 32, 8192, 32064),
    "phi-3.5-moe": config(
        "PhiMoEForCausalLM",
        32,
        4096,
        32,
        6400,
        32064,
        num_key_value_heads=8,
        attention_bias=True,
        lm_head_bias=True,
        num_local_experts=16,
        num_experts_per_tok=2,
    ),
    "starcoder2-3b": config(
        "Starcoder2ForCausalLM", 30, 3072, 24, 12288, 49152, num_key_value_heads=2, use_bias=True
    ),
    "stablelm-2-1.6b": config("StableLmForCausalLM", 24, 2048, 32, 5632, 100352, use_qkv_bias=True),
    "command-r-plus-104b": config(
        "CohereForCausalLM", 64, 12288, 96, 33792, 256000, num_key_value_heads=8, use_qk_norm=True
    ),
    "internlm-7b": config("InternLMForCausalLM", 32, 4096, 32, 11008, 103168, bias=True),
    "internlm2-7b": config("InternLM2ForCausalLM", 32, 4096, 32, 14336, 92544, num_key_value_heads=8),
    "baichuan2-7b": config("BaichuanForCausalLM", 32, 4096, 32, 11008, 125696),
    "granite-8b-code": config(
        "LlamaForCausalLM",
        36,
        4096,
        32,
        14336,
        49152,
        num_key_value_heads=8,
        attention_bias=True,
        mlp_bias=True,
    )
    | {"tie_word_embeddings": True},
    "powermoe-3b": config(
        "GraniteMoeForCausalLM",
        32,
        1536,
        24,
        512,
        49152,
        num_key_value_heads=8,
        num_local_experts=40,
        num_experts_per_tok=8,
    )
    | {"tie_word_embeddings": True},
    "olmo-7b": config("OlmoForCausalLM", 32, 4096, 32, 11008, 50304),
    "olmo-2-7b": config("Olmo2ForCausalLM", 32, 4096, 32, 11008, 100352),
    "olmoe-1b-7b": config(
        "OlmoeForCausalLM", 16, 2048, 16, 1024, 50304, num_experts=64, num_experts_per_tok=8
    ),
    "glm-4.5-air": config(
        "Glm4MoeForCausalLM",
        46,
        4096,
        96,
        10944,
        151552,
        num_key_value_heads=8,
        head_dim=128,
        attention_bias=True,
        n_routed_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=1408,
        n_shared_experts=1,
        first_k_dense_replace=1,
        use_qk_norm=False,
    ),
    "nemotron-4-15b": config("NemotronForCausalLM", 32, 6144, 48, 24576, 256000, num_key_value_heads=8),
    "nemotron-3-nano-30b-a3b": config("NemotronHForCausalLM", 52, 2688, 32, 1856, 131072, **NEMOTRON),
    "bert-large": config("BertForMaskedLM", 24, 1024, 16, 4096, 30522) | BERT,
    "roberta-base": config("RobertaForMaskedLM", 12, 768, 12, 3072, 50265, type_vocab_size=1)
    | {"max_position_embeddings": 514},
    "distilbert-base": {
        "architectures": ["DistilBertForMaskedLM"],
        "n_layers": 6,
        "dim": 768,
        "n_heads": 12,
        "hidden_dim": 3072,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    },
    "electra-small": config("ElectraForPreTraining", 12, 256, 4, 1024, 30522, embedding_size=128) | BERT,
    "t5-11b": t5("T5WithLMHeadModel", 24, 1024, 128, 128, 65536, 32128),
    "t5-v1.1-xxl": t5("T5ForConditionalGeneration", 24, 4096, 64, 64, 10240, 32128)
    | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "mt5-xxl": t5("MT5ForConditionalGeneration", 24, 4096, 64, 64, 10240, 250112)
    | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "bart-large": {
        "architectures": ["BartForConditionalGeneration"],
        "d_model": 1024,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "vocab_size": 50265,
        "max_position_embeddings": 1024,
    },
}
