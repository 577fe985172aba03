"""Measure the start of a small operation: an addition to one element, which takes almost no time itself."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..cases import each_case, together
from ..protocol import Answer
from ..timing import time_calls


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {kind}.

    `asynchronous` queues launches like in training, `synchronous` waits for each.
    """
    value = torch.zeros(1, device=device)

    def prepare(case: dict[str, Any], budget_s: float) -> Callable[[], None]:
        call = action(case["kind"], value)
        return lambda: answer.sample(case, time_calls(call, device, budget_s=budget_s, agree=together()))

    each_case(request, answer, device, prepare)


def action(kind: str, value: torch.Tensor) -> Callable[[], object]:
    """Return the call to time. On a CPU an operation is complete when it returns, so there is no wait."""
    if kind == "asynchronous" or value.device.type != "cuda":
        return lambda: value.add_(1)

    def launch_and_wait() -> None:
        value.add_(1)
        torch.cuda.synchronize(value.device)

    return launch_and_wait
