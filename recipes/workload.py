"""What the user wants to train, and what he insists on."""

from __future__ import annotations

from typing import Literal

from probes.record import StrictRecord

Precision = Literal["bf16", "fp32"]
"""`bf16` is mixed precision: fp32 master weights, bf16 compute."""


class TransformerModel(StrictRecord, kw_only=True):
    """A decoder-only transformer. Sizes are per layer; `kv_heads` < `heads` is grouped-query attention."""

    id: str
    title: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    vocab: int
    gated_mlp: bool = True
    """Three matrices (gate, up, down) instead of two."""
    tied_embeddings: bool = False
    learned_positions: int = 0
    """Rows of a learned position table; 0 for rotary positions."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    bias: bool = False
    """Biases in the linear layers."""
    qkv_bias: bool = False
    """Biases in the query, key and value projections alone (Qwen2)."""
    sequence_length: int
    """The length that the published recipe trains with."""
    learning_rate: float
    """Peak learning rate of the published recipe, at `learning_rate_batch_tokens`."""
    learning_rate_batch_tokens: int
    source: str
    date: str


class Workload(StrictRecord, kw_only=True):
    """One training job, independent of the machine."""

    model: TransformerModel
    sequence_length: int
    global_batch: int
    """Sequences per optimizer step. A convergence setting: the planner never changes it silently."""
    precision: Precision = "bf16"
    optimizer: Literal["adamw"] = "adamw"
    steps: int = 1000
    """Length of the run, for the warm-up."""

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.sequence_length


class Pins(StrictRecord, kw_only=True):
    """What the user fixed. The planner obeys or says why it cannot; it never overrides."""

    strategy: str | None = None
    micro_batch: int | None = None
    activation_checkpointing: Literal["none", "full"] | None = None
    learning_rate: float | None = None
    warmup_steps: int | None = None
    ranks_per_node: int | None = None
