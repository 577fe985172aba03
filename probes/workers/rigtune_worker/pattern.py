"""Data that every device can make by itself, so that what arrived is checked without being sent again."""

from __future__ import annotations

import torch

from .protocol import CaseError

CELL_BYTES = 8
STEP = 0x9E3779B97F4A7C15 - 2**64
"""2**64 over the golden ratio, as a signed number: neighbours differ in all bytes (Knuth, TAOCP 3, section
6.4).
"""


def pattern(size_bytes: int, seed: int, device: torch.device) -> torch.Tensor:
    """64-bit cells that differ from each other and from those of another seed at the same place."""
    cells = torch.arange(seed, seed + size_bytes // CELL_BYTES, device=device, dtype=torch.int64)
    return cells.mul_(STEP)


def check_pattern(found: torch.Tensor, seed: int, what: str) -> None:
    """Raises CaseError (wrong_result) where `found` is not the pattern of that seed."""
    wrong = int((found != pattern(found.numel() * CELL_BYTES, seed, found.device)).sum())
    if wrong:
        raise CaseError("wrong_result", f"{what}: {wrong} of {found.numel()} 64-bit words arrived wrong")
