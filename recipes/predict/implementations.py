"""Bytes that an implementation of the transformer keeps for the backward pass.

They belong to code, not to mathematics: the same model needs up to 1.8 times the activations in one framework
as in another, so every coefficient names its owner.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import load_rows

Compute = Literal["fp32", "autocast", "cast", "raised", "fp8"]
"""How the forward pass computes: in fp32; in 16 bits by autocast over fp32 parameters (residual stream in
fp32); in 16 bits throughout, with 16-bit parameters or parameters cast as they are gathered; the same where
all but quantised weights was raised to fp32, and with it the residual stream and what products give (peft,
prepare_model_for_kbit_training; products of bitsandbytes have the type of their input); or with products in 8
bits and the rest in 16.
"""


class SavedBytes(StrictRecord, kw_only=True):
    """Bytes per token and element that a layer keeps for its backward pass, by what they are kept for."""

    rmsnorm: float
    """Per norm and unit of `hidden`: what RMSNorm keeps of its own, without its output."""
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
    """The same where the model drops some of them: the dropped copy and a mask of a byte too; 0: as many."""
    mask: float = 0.0
    """Per unit of `hidden` and dropout of the residual stream."""
    head: float = 4.0
    """Per head with fused attention: the log-sum-exp in fp32."""
    expert_output: float = 2.0
    """Per routed copy of a token and unit of `hidden`: what an expert gives before it is weighed."""
    state_space: float = 12.0
    """Per unit of a state-space mixer's inner width: projections, convolution, scan and gated norm."""
    residual: float
    """Per unit of `hidden`: one copy of the residual stream, what full checkpointing keeps of a layer."""
    logits: float
    """Per vocabulary entry at the peak of the loss's backward pass."""
    raised_logits: float = 0.0
    """The same in 16 bits throughout where the model's code raises logits to fp32; 0: as many."""
    split_logits: float = 0.0
    """The same where tensor-parallel ranks share the vocabulary; 0: as many."""


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
        """Return the coefficients of this way to compute; 16 bits throughout where it has none of its own."""
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
