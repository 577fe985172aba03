"""Measure all-reduce over the transports that the environment leaves enabled; NCCL's log shows the choice."""

from __future__ import annotations

import os
from typing import Any

import torch

from ..protocol import Answer
from ..transport_log import transport_lines
from .collectives import run as run_collectives


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {collective, bytes}, and add NCCL's log to the answer's end as `nccl_log`."""
    run_collectives(request, answer, device)
    answer.seen["nccl_log"] = transport_lines(os.environ.get("NCCL_DEBUG_FILE", ""), os.getpid())
