"""Measure a training step of the reference workload: duration and peak memory."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Answer
from ..steps import measure_cases, reference_step


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case, smallest first.

    A case is {strategy, activation_checkpointing, micro_batch, sequence_length, precision}.
    """
    measure_cases(
        request,
        answer,
        device,
        reference_step,
        variant=("strategy", "activation_checkpointing", "sequence_length"),
    )
