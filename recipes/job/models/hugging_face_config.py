"""Values of a Hugging Face `config.json`, whose names vary, and sizes that most architectures share."""

from collections.abc import Mapping
from typing import Any

Sizes = dict[str, Any]
"""Fields of TransformerModel; None for a size that the file lacks."""

GPT = {"gated_mlp": False, "norm": "layernorm", "bias": True, "tied_embeddings": True}
"""Fields that GPT-2, OPT, BLOOM and BERT have in common."""
_LENGTH_LIMIT = 8192
"""Largest default length of a sequence, in tokens.

A config states the longest context that the model supports, but pre-training usually uses sequences of at
most this length (Llama 3, arXiv 2407.21783, section 3.4).
"""


class Config:
    """The values of one file, under the names that architectures give them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def whole(self, *names: str) -> int | None:
        """Return the first whole number among the values of these names; None if there is none."""
        for name in names:
            value = self._values.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    def flag(self, name: str, *, default: bool = False) -> Any:
        """Return the value unchanged; the model's constructor rejects values that are not boolean."""
        value = self._values.get(name)
        return default if value is None else value

    def text(self, name: str) -> str:
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def items(self, name: str) -> list[Any]:
        value = self._values.get(name)
        return value if isinstance(value, list) else []

    def beside(self, usual: Mapping[str, Any]) -> "Config":
        """Return this config with values from `usual` for names that the config lacks."""
        return Config({**usual, **self._values})

    def part(self, name: str) -> "Config":
        """Return the nested config of this name, or this config if there is no nested config.

        For example, a multimodal model has a nested config of its text model.
        """
        value = self._values.get(name)
        return Config(value) if isinstance(value, dict) else self


def decoder(config: Config) -> Sizes:
    """Return the sizes of Llama and of the many architectures that are similar to Llama."""
    hidden = config.whole("hidden_size", "n_embd", "d_model", "n_embed")
    heads = config.whole("num_attention_heads", "n_head", "n_heads", "num_heads")
    context = config.whole(
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length"
    )
    bias, places = config.flag("attention_bias"), []
    if bias is True:
        places.append("attention-output")
    if config.flag("mlp_bias") is True:
        places.append("mlp")
    return {
        "layers": config.whole("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.whole("num_key_value_heads") or heads,
        "head_dim": config.whole("head_dim") or (hidden // heads if hidden and heads else None),
        "ffn_hidden": config.whole("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"),
        "vocab": config.whole("vocab_size", "padded_vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "qkv_bias": bias,
        "other_biases": places,
        "sequence_length": min(context, _LENGTH_LIMIT) if context else _LENGTH_LIMIT,
    }


def experts_of(config: Config) -> Sizes:
    """Return the sizes of a mixture of experts; empty if the file states no experts."""
    experts = config.whole("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts") or 0
    if not experts:
        return {}
    width = config.whole("moe_intermediate_size", "expert_intermediate_size") or 0
    shared = config.whole("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size") or 0
    return {
        "experts": experts,
        "experts_per_token": config.whole(
            "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "experts_per_token"
        ),
        "expert_ffn_hidden": width,
        "shared_ffn_hidden": shared or (config.whole("n_shared_experts") or 0) * width,
        "dense_layers": config.whole("first_k_dense_replace") or 0,
    }


def windows(config: Config, sizes: Sizes, every: int = 0) -> Sizes:
    """Return the sizes with local attention in all layers; if `every` is n > 0, every n-th layer is excepted.

    The file's own list of layers takes precedence. Without a window in the file, the sizes stay.
    """
    window, kinds = config.whole("sliding_window", "attention_chunk_size"), config.items("layer_types")
    local, layers = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds), sizes["layers"]
    if not kinds and layers:
        local = layers - layers // every if every else layers
    return sizes | {"sliding_window": window, "local_layers": local} if window and local else sizes


def later_windows(config: Config, sizes: Sizes) -> Sizes:
    """Return the sizes with Qwen's windows.

    If `use_sliding_window` is true in the file, layers from `max_window_layers` on have local attention.
    """
    if config.flag("use_sliding_window") is not True:
        return sizes
    windowed, layers = windows(config, sizes), sizes["layers"]
    first = config.whole("max_window_layers") or 0
    if config.items("layer_types") or "local_layers" not in windowed or not layers:
        return windowed
    return windowed | {"local_layers": layers - first} if first < layers else sizes
