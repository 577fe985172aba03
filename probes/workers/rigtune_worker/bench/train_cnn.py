"""Measure a training step of a ResNet-50-class network: duration and peak memory."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Answer
from ..steps import cnn_step, time_step
from ..training_cases import measure_cases


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {micro_batch, image_size, precision}, smallest first."""
    model = request["model"]

    def measure(case: dict[str, Any], budget_s: float) -> None:
        timing, figures = time_step(lambda: cnn_step(case, model, device), device, budget_s)
        answer.sample(case, timing, **figures)

    measure_cases(request, answer, device, measure, variant=("image_size", "precision"))
