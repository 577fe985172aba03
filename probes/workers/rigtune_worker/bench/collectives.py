"""All-reduce (sum, fp32) over all ranks, with the result verified for every size."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ..parallel import barrier, largest, shared_share
from ..protocol import Answer, CaseError, Timing
from ..timing import Budget, time_calls

PATTERN = 97
"""Values repeat with this prime length, so that a shifted or swapped chunk shows; all sums are exact in fp32."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {bytes} in order. Raises CaseError for a wrong sum: nothing after it could be trusted."""
    budget = Budget(request["budget_s"], len(request["cases"]))
    for case in request["cases"]:
        answer.sample(case, measure(case["bytes"], device, shared_share(budget, device)))


def measure(size_bytes: int, device: torch.device, budget_s: float) -> Timing:
    values = torch.zeros(size_bytes // 4, device=device)
    verify(values, device)
    values.zero_()  # so that repeated sums stay finite
    barrier()
    return time_calls(
        lambda: dist.all_reduce(values), device, budget_s=budget_s, agree=lambda duration_s: largest(device, duration_s)[0]
    )


def verify(values: torch.Tensor, device: torch.device) -> None:
    world_size = dist.get_world_size()
    pattern = torch.arange(values.numel(), device=device, dtype=torch.int32).remainder_(PATTERN).float()
    torch.mul(pattern, dist.get_rank() + 1, out=values)
    dist.all_reduce(values)
    wrong = int((values != pattern * (world_size * (world_size + 1) // 2)).sum())
    if wrong:
        raise CaseError("wrong_result", f"all-reduce of {values.numel() * 4} bytes gave {wrong} wrong values of {values.numel()}")
