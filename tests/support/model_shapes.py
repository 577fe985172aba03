"""Shapes of models for recipes."""

from __future__ import annotations

from recipes.launch.recipe import ModelShape


def decoder_shape(name: str, **sizes: int) -> ModelShape:
    """Return a decoder of Llama's kind with tied embeddings and the given sizes."""
    return ModelShape(
        id=name,
        gated_mlp=True,
        tied_embeddings=True,
        learned_positions=0,
        norm="rmsnorm",
        bias=False,
        qkv_bias=False,
        **sizes,
    )
