"""Measure a training step of a ResNet-50-class network: duration and peak memory."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Answer
from ..steps import cnn_step, measure_cases


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {micro_batch, image_size, precision}, smallest first."""
    measure_cases(request, answer, device, cnn_step, variant=("image_size", "precision"))
