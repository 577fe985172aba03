"""Compute synthetic training data that a model can learn, without files or downloads, equal on every machine.

Every sequence walks over a small alphabet with its own start and stride. A model first learns the symbols
that occur (the loss falls from ln(vocab) to ln(alphabet)), then the four strides (ln 4), then to detect the
stride in the context (0).
"""

from __future__ import annotations

import torch
from torch import Tensor

ALPHABET = 64
STRIDES = (1, 3, 5, 7)
"""Strides coprime to the alphabet, so that every walk visits all of it."""


def synthetic_batch(
    first: int, count: int, length: int, vocab: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return inputs and targets [count, length] of sequences `first` to `first + count - 1`.

    A sequence depends only on its number, so that the same global batch is the same data for any number of
    ranks.
    """
    numbers = torch.arange(first, first + count, dtype=torch.int64)
    alphabet = min(ALPHABET, vocab)
    start = scramble(numbers) % alphabet
    stride = torch.tensor(STRIDES)[
        numbers % len(STRIDES)
    ]  # in turn, so that small batches are no less balanced than large ones
    steps = torch.arange(length + 1, dtype=torch.int64)
    symbols = (start[:, None] + stride[:, None] * steps) % alphabet
    tokens = (symbols * (vocab // alphabet)).to(device, non_blocking=True)
    return tokens[:, :-1], tokens[:, 1:]


def scramble(numbers: Tensor) -> Tensor:
    """Return non-negative pseudo-random integers from counters: two rounds of multiply and xor-shift."""
    mixed = numbers + 1
    for factor in (0x45D9F3B, 0x119DE1F3):
        mixed = (mixed ^ (mixed >> 16)) * factor & 0xFFFFFFFF
    return mixed ^ (mixed >> 16)
