"""Measure the user's own training step: duration, peak memory, and the work that it reports."""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any

import torch
import torch.distributed as dist

from ..memory_limit import limit_memory
from ..own import ITEMS, OwnStep
from ..protocol import Answer
from ..steps import time_own_step


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure the only case {step}. The reported work is summed over ranks."""
    # SIGTERM ends a step that hangs; the log then contains its traceback.
    faulthandler.register(signal.SIGTERM, chain=True)
    case = request["cases"][0]
    limit_memory(
        device,
        int(request["settings"].get("memory_limit_bytes", 0)),
        int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    )
    own = OwnStep(case["step"], str(request["settings"].get("folder", "")))
    timing, figures, items_per_step = time_own_step(own, device, request["budget_s"])
    items = torch.tensor(items_per_step, dtype=torch.float64, device=device)
    dist.all_reduce(items)
    if own.takes_micro_batch:
        figures["micro_batch"] = own.default_micro_batch
    answer.sample(case, timing, **figures, **dict(zip(ITEMS, items.tolist())))
