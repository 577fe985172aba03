"""Activations that an implementation of the transformer keeps for the backward pass, bytes per token.

They depend on the code, not on the mathematics: for the same model one framework keeps up to 1.8 times
as much as another, so every coefficient names its owner.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.job.models.blocks import Block
from recipes.job.workload import AdapterTargets, TransformerModel
from recipes.predict.shares import is_adapted

Compute = Literal["fp32", "autocast", "cast", "raised", "fp8"]
"""How the forward pass computes: in fp32; in 16 bits by autocast over fp32 parameters (residual stream in
fp32); in 16 bits throughout, with 16-bit parameters or parameters cast as they are gathered; the same if all
but quantised weights was raised to fp32, and with it the residual stream and the outputs of products (peft,
prepare_model_for_kbit_training; products of bitsandbytes have the type of their input); or with products in 8
bits and the rest in 16.
"""


class SavedBytes(StrictRecord, kw_only=True):
    """Bytes per token and element that a layer keeps for its backward pass, by what they are kept for."""

    rmsnorm: float
    """Per norm and unit of `hidden`: what RMSNorm keeps beside its output."""
    frozen_rmsnorm: float = 0.0
    """The same if its weight is not trained; 0 under autocast, which runs that train adapters do not use."""
    layernorm: float
    frozen_layernorm: float = 0.0
    input: float
    """Input of a linear layer with a trained weight: an output of a norm, the product before the second MLP
    matrix.
    """
    gathers_inputs: bool = False
    """Whether every tensor-parallel rank keeps the whole input with sequence parallelism, not its part to
    gather again.
    """
    adapter_input: float = 0.0
    """Input of an adapter: a copy after dropout, and dropout's mask; 0 under autocast."""
    query: float
    """Per query head and element of it."""
    key_value: float
    """Per key head and element, and per value head and element."""
    repeats_keys: bool = True
    """Keys and values are kept for every query head, though several share them."""
    attention_output: float
    """Per query head and element of a value head; it is the input of the output projection too."""
    rotary: float = 0.0
    """Per query head and element: what rotary positions keep beside."""
    gated: float
    """Per unit of the MLP's width: gate and up before their product."""
    plain: float
    """Per unit of the MLP's width with two matrices: what is before the activation function."""
    scores: float = 5.0
    """Per query head, token and key without fused attention: scores and their softmax."""
    dropped_scores: float = 0.0
    """The same if the model has dropout of scores: the dropped copy and a mask of a byte too; 0: as many."""
    mask: float = 0.0
    """Per unit of `hidden` and dropout of the residual stream."""
    head: float = 4.0
    """Per head with fused attention: the log-sum-exp in fp32."""
    expert_output: float = 2.0
    """Per routed copy of a token and unit of `hidden`: an expert's output before it is weighted."""
    state_space: float = 12.0
    """Per unit of a state-space mixer's inner width: projections, convolution, scan and gated norm."""
    residual: float
    """Per unit of `hidden`: one copy of the residual stream, which is all that full checkpointing keeps."""
    logits: float
    """Per vocabulary entry at the peak of the loss's backward pass."""
    raised_logits: float = 0.0
    """The same in 16 bits throughout if the model's code raises logits to fp32; 0: as many."""
    split_logits: float = 0.0
    """The same if tensor-parallel ranks share the vocabulary; 0: as many."""


class Implementation(StrictRecord, kw_only=True):
    """One implementation's coefficients."""

    id: str
    title: str
    saved: dict[Compute, SavedBytes]
    weight_cache_bytes: dict[Compute, float]
    """Per matmul parameter: low-precision copies of weights that live until the backward pass used them."""
    transposes_on: tuple[str, ...] = ()
    """Architectures whose 8-bit products take operands in one layout only.

    A transposed copy of each 8-bit weight is then kept beside it, a byte each. Formats that scale blocks
    along a row or a column keep both on every architecture.
    """
    source: str
    date: str

    def kept(self, compute: Compute) -> SavedBytes:
        """Return the coefficients of this way to compute, or else those of 16 bits throughout."""
        if compute == "raised":
            # attention and the loss's logits are 16-bit under autocast all the same
            wide, narrow = self.saved["fp32"], self.kept("cast")
            kept = (
                "query",
                "key_value",
                "attention_output",
                "rotary",
                "logits",
                "split_logits",
                "adapter_input",
            )
            return msgspec.structs.replace(wide, **{name: getattr(narrow, name) for name in kept})
        return self.saved.get(compute) or self.saved["cast"]


@functools.lru_cache(maxsize=1)
def load_implementations() -> dict[str, Implementation]:
    """Return all rows of `recipes/data/implementations.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "implementations", Implementation)}


class Kept(NamedTuple):
    """Bytes per token that one block keeps on one rank."""

    fixed: float
    half: float
    """Bytes with every second product's output kept and the rest recomputed."""
    per_key: float
    """Bytes per token and key if scores are written to memory."""


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
