"""Measure a training step of the reference workload: duration and peak memory."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Answer
from ..steps import reference_step, time_step
from ..training_cases import measure_cases


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case, smallest first.

    A case is {strategy, activation_checkpointing, micro_batch, sequence_length, precision}.
    """
    model = request["model"]

    def measure(case: dict[str, Any], budget_s: float) -> None:
        timing, figures = time_step(lambda: reference_step(case, model, device), device, budget_s)
        answer.sample(case, timing, **figures)

    measure_cases(
        request, answer, device, measure, variant=("strategy", "activation_checkpointing", "sequence_length")
    )
