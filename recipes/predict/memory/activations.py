"""Activations that a micro-batch keeps for its backward pass."""

from __future__ import annotations

import functools
from typing import NamedTuple

from recipes.job.models.blocks import Block
from recipes.job.workload import AdapterTargets, TransformerModel
from recipes.predict.implementations import SavedBytes
from recipes.predict.shares import is_adapted


class Kept(NamedTuple):
    """Bytes per token that one block keeps on one rank."""

    fixed: float
    half: float
    """Bytes with every second product's output kept and the rest recomputed."""
    per_key: float
    """Per token and key, where scores are written out."""


@functools.lru_cache(maxsize=8192)
def kept_by(
    block: Block,
    saved: SavedBytes,
    *,
    rms: bool,
    rotary: bool,
    tensor: int,
    split_norms: bool,
    adapted: AdapterTargets | None,
    quantised: bool,
    fused: bool,
    dropout: bool = False,
) -> Kept:
    """Return the bytes per token that one block keeps for its backward pass.

    `tensor` ranks share a layer's matrices, and with sequence parallelism (`split_norms`) its norms too.
    `adapted` is None if the weights are trained, else the layers with adapters: a frozen linear layer needs
    no input for its backward pass, but the adapter beside it does, and the kernels of `quantised` weights
    keep it all the same.
    """
    norm_share = tensor if split_norms else 1
    trained_norm, frozen_norm = (
        (saved.rmsnorm, saved.frozen_rmsnorm) if rms else (saved.layernorm, saved.frozen_layernorm)
    )
    norm = frozen_norm if adapted else trained_norm
    total = block.norms * block.hidden * (norm + (saved.mask if dropout else 0.0)) / norm_share
    # Outputs of adapters for queries and values are spread over keys too: published peaks grow as if all of
    # attention had them.
    keeping = "attention" if adapted == "query-value" else adapted
    outputs = 0.0
    whole_input = 1 if saved.gathers_inputs else norm_share
    kept_inputs = set()  # an input of several products is kept once
    for product in block.products:
        share = tensor if product.split == "rows" else whole_input
        if product.experts <= 1:  # outputs of grouped products are not kept
            outputs += product.rows * product.outputs / (tensor if product.split == "columns" else norm_share)
        if keeping is not None and is_adapted(product, keeping):
            branches = 2 if block.gated and product.part == "mlp" and product.split == "columns" else 1
            total += branches * product.rows * product.inputs * saved.adapter_input / share
        if product.part in ("attention", "cross-attention") and product.split == "rows":
            continue  # attention itself keeps this input
        key = (
            product.part if not block.parallel or product.inputs != block.hidden else "",
            product.inputs,
            product.rows,
        )
        if key in kept_inputs or (adapted and (not quantised or product.part == "router")):
            continue
        kept_inputs.add(key)
        total += product.rows * product.inputs * saved.input / share
        if product.experts > 1 and product.split == "rows":
            total += product.rows * block.hidden * saved.expert_output / norm_share
    per_key = 0.0
    for attention in block.attention:
        keys = attention.heads if saved.repeats_keys else attention.kv_heads
        elements = (
            attention.heads * attention.query_key_dim * (saved.query + (saved.rotary if rotary else 0.0))
        )
        elements += keys * (attention.query_key_dim + attention.value_dim) * saved.key_value
        elements += attention.heads * attention.value_dim * saved.attention_output
        if fused:
            elements += attention.heads * saved.head
        else:
            per_key += attention.heads * ((dropout and saved.dropped_scores) or saved.scores) / tensor
        total += elements / tensor
        outputs += 2.0 * attention.heads * attention.value_dim / tensor
    total += block.ffn_width * (saved.gated if block.gated else saved.plain) / tensor
    if block.state_space is not None:
        total += block.state_space.inner * saved.state_space / tensor
    half = block.hidden * saved.residual / norm_share + outputs * saved.input / 2
    return Kept(fixed=total * block.tokens, half=half * block.tokens, per_key=per_key * block.tokens)


def root_kept(model: TransformerModel, saved: SavedBytes, norm_share: int) -> float:
    """Return the bytes per token of the final norm and the head's input.

    `norm_share` ranks divide the tokens of norms.
    """
    norm = saved.rmsnorm if model.norm == "rmsnorm" else saved.layernorm
    return model.hidden * (norm / norm_share + saved.input / (1 if saved.gathers_inputs else norm_share))
