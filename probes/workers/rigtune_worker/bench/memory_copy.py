"""Copy time of large buffers: within the device's memory, and between it and pinned host memory."""

from __future__ import annotations

from typing import Any

import torch

from ..parallel import barrier
from ..protocol import Answer, CaseError, Timing, is_out_of_memory
from ..timing import Budget, time_calls


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {direction, bytes}. All ranks copy at the same time, each on its device."""
    budget = Budget(request["budget_s"], len(request["cases"]))
    for case in request["cases"]:
        barrier()
        share_s = budget.next_case()
        try:
            timing = measure(case["direction"], case["bytes"], device, share_s)
        except CaseError as error:
            answer.failure(error.kind, str(error), case)
        except RuntimeError as error:
            answer.failure("out_of_memory" if is_out_of_memory(error) else "unsupported", str(error), case)
        else:
            answer.sample(case, timing)


def measure(direction: str, size_bytes: int, device: torch.device, budget_s: float) -> Timing:
    source, target = buffers(direction, size_bytes, device)
    timing = time_calls(lambda: target.copy_(source, non_blocking=True), device, budget_s=budget_s)
    if not torch.equal(source.to(device), target.to(device)):
        raise CaseError("wrong_result", "the copy differs from its source")
    return timing


def buffers(direction: str, size_bytes: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Source and target, written once so that every page is there."""
    source_on_host, target_on_host = direction == "host_to_device", direction == "device_to_host"
    return buffer(size_bytes, device, source_on_host, 1), buffer(size_bytes, device, target_on_host, 0)


def buffer(size_bytes: int, device: torch.device, on_host: bool, value: int) -> torch.Tensor:
    if on_host:
        return torch.full((size_bytes,), value, dtype=torch.uint8, pin_memory=device.type == "cuda")
    return torch.full((size_bytes,), value, dtype=torch.uint8, device=device)
