"""What an implementation of the transformer keeps in memory and runs: figures that belong to code, not to mathematics.

The same model needs up to 1.8 times the activations in one framework as in another, so every coefficient names its owner.
"""

from __future__ import annotations

import functools
from typing import Literal

from probes.record import StrictRecord
from recipes.rows import load_rows
from recipes.workload import TransformerModel

Compute = Literal["fp32", "autocast", "cast"]
"""How the forward pass computes: in fp32; in bf16 by autocast over fp32 parameters (residual stream in fp32); or in bf16
throughout with parameters cast as they are gathered (FSDP's mixed precision)."""


class SavedBytes(StrictRecord, kw_only=True):
    """Bytes that one layer keeps for the backward pass, per token."""

    rmsnorm: float
    """Per unit of `hidden`, where the norms are RMSNorm: norm inputs, outputs and what the norm keeps."""
    layernorm: float
    """The same for LayerNorm."""
    rotary: float
    """Per unit of heads x head_dim, with rotary positions: query, key, value (repeated to all heads) and the attention output."""
    learned: float
    """The same without rotary positions."""
    gated: float
    """Per unit of `ffn_hidden`, with a gated MLP."""
    plain: float
    """The same with two matrices."""
    head: float = 4.0
    """Per head: the log-sum-exp of fused attention in fp32."""
    residual: float
    """Per unit of `hidden`: one copy of the residual stream, what full checkpointing keeps of a layer."""
    logits: float
    """Per vocabulary entry at the peak of the loss's backward pass."""


class Implementation(StrictRecord, kw_only=True):
    """One implementation's coefficients."""

    id: str
    title: str
    saved: dict[Compute, SavedBytes]
    weight_cache_bytes: dict[Compute, float]
    """Per matmul parameter: low-precision copies of weights that live until the backward pass used them."""
    forward_kernels: int
    """Kernels that one layer launches in the forward pass; the backward pass launches about twice as many."""
    optimizer_traffic_bytes: float
    """Per parameter held: memory read and written by one optimizer step."""
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_implementations() -> dict[str, Implementation]:
    """All rows of `recipes/data/implementations.toml` by id."""
    return {row.id: row for row in load_rows("implementations", Implementation)}


REFERENCE = "rigtune-worker"


def saved_bytes_per_token(model: TransformerModel, saved: SavedBytes) -> float:
    """What one layer keeps for its backward pass, bytes per token."""
    return (
        model.hidden * (saved.rmsnorm if model.norm == "rmsnorm" else saved.layernorm)
        + model.heads * model.head_dim * (saved.learned if model.learned_positions else saved.rotary)
        + model.ffn_hidden * (saved.gated if model.gated_mlp else saved.plain)
        + model.heads * saved.head
    )


def root_saved_bytes_per_token(model: TransformerModel, saved: SavedBytes) -> float:
    """What the final norm and the head keep, bytes per token: half of a layer's two norms."""
    return model.hidden * (saved.rmsnorm if model.norm == "rmsnorm" else saved.layernorm) / 2
