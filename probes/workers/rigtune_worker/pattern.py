"""Compute data that every device can compute itself, so that received data is checked without sending it."""

from __future__ import annotations

import torch

from .protocol import CaseError

CELL_BYTES = 8
STEP = 0x9E3779B97F4A7C15 - 2**64
"""2**64 over the golden ratio, as a signed number: neighbours differ in all bytes.

Source: Knuth, TAOCP 3, section 6.4.
"""


def pattern(size_bytes: int, seed: int, device: torch.device) -> torch.Tensor:
    """Return 64-bit cells that differ from each other and from those of another seed at the same place."""
    cells = torch.arange(seed, seed + size_bytes // CELL_BYTES, device=device, dtype=torch.int64)
    return cells.mul_(STEP)


def check_pattern(data: torch.Tensor, seed: int, what: str) -> None:
    """Raise CaseError (wrong_result) if `data` is not the pattern of that seed."""
    wrong = int((data != pattern(data.numel() * CELL_BYTES, seed, data.device)).sum())
    if wrong:
        raise CaseError("wrong_result", f"{what}: {wrong} of {data.numel()} 64-bit words arrived wrong")
