"""Sizes of architectures like GPT, BERT and T5 from a `config.json` of Hugging Face."""

from recipes.job.models.hugging_face_config import GPT, Config, Sizes, decoder, experts_of, windows


def gpt2(config: Config) -> Sizes:
    sizes = decoder(config)
    hidden, positions = sizes["hidden"], config.whole("n_positions")
    return sizes | {
        **GPT,
        "kv_heads": 1 if config.flag("multi_query") is True else sizes["heads"],
        "ffn_hidden": sizes["ffn_hidden"] or (4 * hidden if hidden else None),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
        "learned_positions": positions,
        "sequence_length": positions,
        "qkv_bias": False,
    }


def gpt_neo(config: Config) -> Sizes:
    sizes = gpt2(config)
    kinds = [
        kind
        for entry in config.items("attention_types")
        if isinstance(entry, list) and len(entry) == 2
        for kind in entry[0]
    ]
    positions, layers = config.whole("max_position_embeddings"), sizes["layers"] or 0
    return sizes | {
        "bias": False,
        "norm_bias": True,
        "other_biases": ["attention-output", "mlp"],
        "learned_positions": positions,
        "sequence_length": positions,
        "sliding_window": config.whole("window_size") or 256,
        "local_layers": round(layers * kinds.count("local") / len(kinds)) if kinds else layers // 2,
    }


def gpt_j(config: Config) -> Sizes:
    return gpt2(config) | {
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "bias": False,
        "norm_bias": True,
        "other_biases": ["mlp", "head"],
        "layer_norms": 1,
        "parallel_mlp": True,
        "learned_positions": 0,
    }


def gpt_neox(config: Config) -> Sizes:
    return decoder(config) | {
        **GPT,
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "parallel_mlp": config.flag("use_parallel_residual", default=True),
    }


def falcon(config: Config) -> Sizes:
    sizes = decoder(config)
    new, hidden, bias = config.flag("new_decoder_architecture"), sizes["hidden"], config.flag("bias")
    shared_heads = 1 if config.flag("multi_query", default=True) is True else None
    key_value_heads = config.whole("num_kv_heads", "n_head_kv") if new is True else shared_heads
    parallel = config.flag("parallel_attn", default=True)
    return sizes | {
        "gated_mlp": False,
        "norm": "layernorm",
        "bias": bias,
        "norm_bias": True,
        "kv_heads": key_value_heads or sizes["heads"],
        "ffn_hidden": sizes["ffn_hidden"] or (4 * hidden if hidden else None),
        "parallel_mlp": parallel,
        "layer_norms": 1 if parallel is True and new is not True else 2,
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
    }


def mpt(config: Config) -> Sizes:
    sizes, attention = decoder(config), config.part("attn_config")
    ratio, hidden = config.whole("expansion_ratio") or 4, sizes["hidden"]
    return sizes | {
        **GPT,
        "bias": config.flag("no_bias", default=True) is not True,
        "kv_heads": attention.whole("kv_n_heads") or sizes["heads"],
        "ffn_hidden": ratio * hidden if hidden else None,
        "learned_positions": 0 if attention.flag("alibi") is True else sizes["sequence_length"],
    }


def opt(config: Config) -> Sizes:
    sizes, positions = decoder(config), config.whole("max_position_embeddings")
    width = config.whole("word_embed_proj_dim")
    return sizes | {
        **GPT,
        # The table has two rows before the first position.
        "learned_positions": positions + 2 if positions else None,
        "embedding_size": width if width and width != sizes["hidden"] else 0,
        "final_norm": config.flag("do_layer_norm_before", default=True),
    }


def bloom(config: Config) -> Sizes:
    hidden = decoder(config)["hidden"]
    return decoder(config) | {**GPT, "ffn_hidden": 4 * hidden if hidden else None, "embedding_norm": True}


def phi(config: Config) -> Sizes:
    return decoder(config) | {
        **GPT,
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "parallel_mlp": True,
        "layer_norms": 1,
        "other_biases": ["head"],
    }


def phimoe(config: Config) -> Sizes:
    sizes = decoder(config) | experts_of(config) | {"norm": "layernorm", "norm_bias": True}
    if config.flag("lm_head_bias") is True:
        sizes["other_biases"] = [*sizes["other_biases"], "head"]
    return windows(config, sizes)


def starcoder2(config: Config) -> Sizes:
    fixed = {
        **GPT,
        "bias": config.flag("use_bias", default=True),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
    }
    return windows(config, decoder(config) | fixed)


def bert(config: Config) -> Sizes:
    hidden, heads = config.whole("hidden_size", "dim"), config.whole("num_attention_heads", "n_heads")
    positions, width = config.whole("max_position_embeddings"), config.whole("embedding_size")
    return {
        "kind": "encoder",
        "layers": config.whole("num_hidden_layers", "n_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": hidden // heads if hidden and heads else None,
        "ffn_hidden": config.whole("intermediate_size", "hidden_dim"),
        "vocab": config.whole("vocab_size"),
        "gated_mlp": False,
        "tied_embeddings": True,
        "norm": "layernorm",
        "bias": True,
        "embedding_norm": True,
        "final_norm": False,
        "head_fraction": 0.15,  # masked tokens (BERT, arXiv 1810.04805, section 3.1)
        "embedding_size": width if width and width != hidden else 0,
        "token_types": config.whole("type_vocab_size") or 0,
        "learned_positions": positions,
        "sequence_length": min(positions, 512) if positions else None,
    }


def t5(config: Config) -> Sizes:
    layers, heads = config.whole("num_layers"), config.whole("num_heads")
    return {
        "kind": "encoder-decoder",
        "layers": config.whole("num_decoder_layers") or layers,
        "encoder_layers": layers,
        "hidden": config.whole("d_model"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": config.whole("d_kv"),
        "ffn_hidden": config.whole("d_ff"),
        "vocab": config.whole("vocab_size"),
        "gated_mlp": config.text("feed_forward_proj").startswith("gated"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
        "position_buckets": config.whole("relative_attention_num_buckets") or 32,
        # about a quarter: 114 targets for 512 inputs (T5, arXiv 1910.10683, section 3.1.4)
        "decoder_tokens": 0.25,
        "sequence_length": 512,
    }


def bart(config: Config) -> Sizes:
    hidden, heads, positions = (
        config.whole("d_model"),
        config.whole("encoder_attention_heads"),
        config.whole("max_position_embeddings"),
    )
    return {
        "kind": "encoder-decoder",
        "layers": config.whole("decoder_layers"),
        "encoder_layers": config.whole("encoder_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": hidden // heads if hidden and heads else None,
        "ffn_hidden": config.whole("encoder_ffn_dim"),
        "vocab": config.whole("vocab_size"),
        **GPT,
        "embedding_norm": True,
        "final_norm": False,
        "learned_positions": positions + 2 if positions else None,
        "sequence_length": positions,
    }
