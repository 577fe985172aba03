"""A decoder-only transformer (GPT-2, Llama, Qwen2 and similar models) in plain torch.

    tokens -> embedding (+ learned positions) -> blocks -> norm -> logits

Each block adds two terms to the residual stream: the values that attention collects from earlier positions,
and the output of the MLP. Letters of shapes in comments: B sequences, S positions, H heads, K key-value
heads, D size of a head, E hidden size.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROTARY_BASE = 10000.0
"""RoFormer (arXiv 2104.09864), section 3.2.2."""
NORM_EPSILON = 1e-5
INITIAL_DEVIATION = 0.02
"""GPT-2's standard deviation of the initial weights."""


@dataclasses.dataclass(frozen=True)
class ModelShape:
    """The sizes of the model, under the field names that rigtune's recipe uses."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    """Key and value heads.

    If there are fewer than `heads`, several query heads share a key-value head (grouped-query attention).
    """
    head_dim: int
    ffn_hidden: int
    vocab: int
    sequence_length: int
    gated_mlp: bool = True
    """True for three matrices with SiLU (SwiGLU, arXiv 2002.05202) instead of two with GELU."""
    tied_embeddings: bool = False
    learned_positions: int = 0
    """Rows of the learned position table; 0 for rotary positions."""
    norm: str = "rmsnorm"
    bias: bool = False
    """True for biases in all linear layers of the blocks, and in LayerNorms."""
    qkv_bias: bool = False
    """True for biases in the query, key and value projections, as in Qwen2."""
    id: str = "model"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelShape:
        """Return the shape in `values`; unknown keys are ignored. Raises ValueError for impossible sizes."""
        names = {field.name for field in dataclasses.fields(cls)}
        try:
            shape = cls(**{name: value for name, value in values.items() if name in names})
        except TypeError as error:
            raise ValueError(f"model: {error}") from None
        for name in (
            "layers",
            "hidden",
            "heads",
            "kv_heads",
            "head_dim",
            "ffn_hidden",
            "vocab",
            "sequence_length",
        ):
            if not isinstance(getattr(shape, name), int) or getattr(shape, name) < 1:
                raise ValueError(
                    f"model: {name} must be a positive whole number, not {getattr(shape, name)!r}"
                )
        if shape.heads % shape.kv_heads:
            raise ValueError(f"model: {shape.heads} heads cannot share {shape.kv_heads} kv_heads evenly")
        if shape.norm not in ("rmsnorm", "layernorm"):
            raise ValueError(f"model: norm must be rmsnorm or layernorm, not {shape.norm!r}")
        if shape.learned_positions and shape.sequence_length > shape.learned_positions:
            raise ValueError(
                f"model: sequence_length {shape.sequence_length} exceeds its {shape.learned_positions} "
                f"positions"
            )
        if not shape.learned_positions and shape.head_dim % 2:
            raise ValueError(f"model: rotary positions need an even head_dim, not {shape.head_dim}")
        return shape


def make_norm(shape: ModelShape) -> nn.Module:
    """Return the norm of the shape; a LayerNorm has a bias if the linear layers do."""
    if shape.norm == "rmsnorm":
        return nn.RMSNorm(shape.hidden, eps=NORM_EPSILON)
    return nn.LayerNorm(shape.hidden, eps=NORM_EPSILON, bias=shape.bias)


def rotary_angles(length: int, head_dim: int, device: torch.device) -> Tensor:
    """Return the angles of positions and pairs of channels, [S, D/2]: position times base ** (-2 i / D)."""
    frequencies = ROTARY_BASE ** (
        -torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim
    )
    return torch.outer(torch.arange(length, device=device, dtype=torch.float32), frequencies)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Return x [B, H, S, D] with channel pairs (i, i + D/2) rotated by their position's angle."""
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1).type_as(x)


class Attention(nn.Module):
    """Causal self-attention layer."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = shape.heads, shape.kv_heads, shape.head_dim
        qkv_bias = shape.bias or shape.qkv_bias
        self.query = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=qkv_bias)
        self.key = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=qkv_bias)
        self.value = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=qkv_bias)
        self.output = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=shape.bias)

    def forward(self, x: Tensor, angles: Tensor | None) -> Tensor:
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)  # [B, H, S, D]
        k = self.key(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)  # [B, K, S, D]
        v = self.value(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        if self.kv_heads != self.heads:
            # Every attention kernel supports repeated heads; enable_gqa needs torch 2.5 and flash.
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, self.heads * self.head_dim))


class Mlp(nn.Module):
    """The feed-forward part, applied to every position separately."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden, shape.ffn_hidden, bias=shape.bias) if shape.gated_mlp else None
        self.up = nn.Linear(shape.hidden, shape.ffn_hidden, bias=shape.bias)
        self.down = nn.Linear(shape.ffn_hidden, shape.hidden, bias=shape.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer: attention and MLP, each after a norm and added to the residual stream."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = make_norm(shape)
        self.attention = Attention(shape)
        self.mlp_norm = make_norm(shape)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, angles: Tensor | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """The whole model: token ids [B, S] in, logits [B, S, vocab] out."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.positions = (
            nn.Embedding(shape.learned_positions, shape.hidden) if shape.learned_positions else None
        )
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = make_norm(shape)
        self.head = None if shape.tied_embeddings else nn.Linear(shape.hidden, shape.vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.embedding(tokens)  # [B, S, E]
        angles = None
        if self.positions is None:
            angles = rotary_angles(length, self.shape.head_dim, tokens.device)
        else:
            x = x + self.positions(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            x = block(x, angles)
        x = self.norm(x)
        return F.linear(x, self.embedding.weight) if self.head is None else self.head(x)


def initialise(module: nn.Module, generator: torch.Generator, layers: int) -> None:
    """Fill the parameters below `module` in place, with equal values for an equal generator state.

    GPT-2's scheme: normal weights with deviation 0.02, the projections that end on the residual stream
    divided by sqrt(2 * layers), zero biases, unit norms.
    """
    for name, child in module.named_modules():
        if isinstance(child, (nn.Linear, nn.Embedding)):
            ends_on_residual = name.rsplit(".", 1)[-1] in ("output", "down")
            deviation = INITIAL_DEVIATION / (2 * layers) ** 0.5 if ends_on_residual else INITIAL_DEVIATION
            nn.init.normal_(child.weight, std=deviation, generator=generator)
            if getattr(child, "bias", None) is not None:
                nn.init.zeros_(child.bias)
        elif isinstance(child, (nn.RMSNorm, nn.LayerNorm)):
            nn.init.ones_(child.weight)
            if getattr(child, "bias", None) is not None:
                nn.init.zeros_(child.bias)
