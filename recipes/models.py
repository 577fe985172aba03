"""The model presets, and what follows from a model's sizes alone: parameters and FLOPs."""

from __future__ import annotations

import difflib
import functools

from probes.errors import UsageError
from recipes.model_files import model_from_file
from recipes.rows import load_rows
from recipes.workload import TransformerModel

__all__ = [
    "attention_flops_per_token",
    "find_model",
    "flops_per_token",
    "layer_matmul_parameter_count",
    "layer_parameter_count",
    "load_models",
    "matmul_parameter_count",
    "model_from_file",
    "parameter_count",
    "root_parameter_count",
]


@functools.lru_cache(maxsize=1)
def load_models() -> tuple[TransformerModel, ...]:
    """The presets of `recipes/data/models.toml`."""
    return load_rows("models", TransformerModel)


def find_model(model_id: str) -> TransformerModel:
    """The preset with this id, without regard to case. Raises UsageError that names the nearest ids."""
    wanted = model_id.strip().lower()
    ids = [model.id for model in load_models()]
    for model in load_models():
        if model.id == wanted:
            return model
    near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.5)
    suggestion = f"did you mean {' or '.join(near)}? " if near else ""
    hint = f"{suggestion}models: {', '.join(ids)}; or give the path of a model file"
    raise UsageError(f"there is no model {model_id[:80]!r}", hint)


def _norm_parameters(model: TransformerModel) -> int:
    """Weights of one norm; a LayerNorm carries a bias where the linear layers do."""
    return model.hidden * (2 if model.norm == "layernorm" and model.bias else 1)


def layer_matmul_parameter_count(model: TransformerModel) -> int:
    """Weights of one layer that take part in a matrix product: h d (2a + 2k) for attention, 3 h f or 2 h f for the MLP."""
    attention = model.hidden * model.head_dim * 2 * (model.heads + model.kv_heads)
    return attention + (3 if model.gated_mlp else 2) * model.hidden * model.ffn_hidden


def layer_parameter_count(model: TransformerModel) -> int:
    """All parameters of one layer: matrices, biases and two norms."""
    query_key_value = (model.heads + 2 * model.kv_heads) * model.head_dim
    biases = query_key_value if model.bias or model.qkv_bias else 0
    if model.bias:
        biases += model.hidden + (2 if model.gated_mlp else 1) * model.ffn_hidden + model.hidden
    return layer_matmul_parameter_count(model) + biases + 2 * _norm_parameters(model)


def root_parameter_count(model: TransformerModel) -> int:
    """Parameters outside the layers: token and position tables, final norm, and the head unless it is tied."""
    tables = (model.vocab + model.learned_positions) * model.hidden
    head = 0 if model.tied_embeddings else model.vocab * model.hidden
    return tables + head + _norm_parameters(model)


def parameter_count(model: TransformerModel) -> int:
    """All trainable parameters, each once; equal to the published counts of the presets."""
    return model.layers * layer_parameter_count(model) + root_parameter_count(model)


def matmul_parameter_count(model: TransformerModel) -> int:
    """Weights used in a matrix product per token: the layers and the head, without the embedding look-up."""
    return model.layers * layer_matmul_parameter_count(model) + model.vocab * model.hidden


def attention_flops_per_token(model: TransformerModel, sequence_length: int) -> float:
    """Scores and values of causal attention, forward and backward: 6 L a d s (half of the full 12 L a d s)."""
    return 6.0 * model.layers * model.heads * model.head_dim * sequence_length


def flops_per_token(model: TransformerModel, sequence_length: int) -> float:
    """Model FLOPs of one token, forward and backward: 6 per matmul parameter plus causal attention.

    Recomputation is not counted. The convention is that of Megatron-LM; torchtitan and llm-foundry count full attention.
    """
    return 6.0 * matmul_parameter_count(model) + attention_flops_per_token(model, sequence_length)
