"""Measure the start of a small operation: an addition to one element, which takes almost no time itself."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..cases import Prepared, time_each
from ..protocol import Answer


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {kind}: `asynchronous` queues launches, as training does; `synchronous` waits."""
    value = torch.zeros(1, device=device)
    time_each(request, answer, device, lambda case: Prepared(action(case["kind"], value)))


def action(kind: str, value: torch.Tensor) -> Callable[[], object]:
    """Return the call to time. On a CPU an operation is complete when it returns, so there is no wait."""
    if kind == "asynchronous" or value.device.type != "cuda":
        return lambda: value.add_(1)

    def launch_and_wait() -> None:
        value.add_(1)
        torch.cuda.synchronize(value.device)

    return launch_and_wait
