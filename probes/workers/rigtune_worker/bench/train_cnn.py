"""One training step of a ResNet-50-class network: not built yet."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Answer


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    raise NotImplementedError
