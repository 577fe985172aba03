"""Measure copy (a = b) and triad (a = b + s c) over arrays far larger than any cache."""

from __future__ import annotations

from typing import Any

import torch

from ..cases import Prepared, time_each
from ..copies import check_pattern, pattern
from ..protocol import Answer, CaseError

SEED = 1
PERIOD = 97
"""Period of the values: a prime, so that a shifted block is detected.

Sums of such small whole numbers are exact in fp32.
"""
SCALE = 3


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {operation, direction, bytes}; `bytes` is the size of one array."""

    def prepare(case: dict[str, Any]) -> Prepared:
        prepared = (triad if case["operation"] == "triad" else copy)(case["bytes"], device)
        prepared.call()
        return prepared

    time_each(request, answer, device, prepare)


def copy(size_bytes: int, device: torch.device) -> Prepared:
    """Return the copy and the check of its result."""
    source = pattern(size_bytes, SEED, device)
    target = torch.zeros_like(source)
    return Prepared(
        lambda: target.copy_(source), lambda: check_pattern(target, SEED, "a copy within the memory")
    )


def triad(size_bytes: int, device: torch.device) -> Prepared:
    """Return the triad in fp32 and the check of its result."""
    b = torch.arange(size_bytes // 4, device=device, dtype=torch.int32).remainder_(PERIOD).float()
    c, a = b + 1, torch.zeros_like(b)

    def check() -> None:
        wrong = int((a != b * (SCALE + 1) + SCALE).sum())
        if wrong:
            raise CaseError("wrong_result", f"{wrong} of {a.numel()} values of a triad are wrong")

    return Prepared(lambda: torch.add(b, c, alpha=SCALE, out=a), check)
