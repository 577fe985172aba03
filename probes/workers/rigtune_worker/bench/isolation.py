"""All-reduce over NVLink alone, over NICs alone, and over all: which layer is slow: not built yet."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Answer


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    raise NotImplementedError
