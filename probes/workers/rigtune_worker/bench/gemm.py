"""Measure matrix multiplication: C[m, n] = A[m, k] B[k, n] by dtype and shape."""

from __future__ import annotations

from typing import Any

import torch

from ..cases import Prepared, time_each
from ..memory_limit import refuse_beyond_memory
from ..product import Product, cache_flush, memory_bytes
from ..protocol import Answer


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {dtype, m, n, k}, smallest first within a dtype, on all ranks at the same time.

    The time of each case is estimated from the previous case of the same dtype, because bf16 can be a
    hundred times slower than fp32 on a CPU without bf16 instructions.
    """
    asked = str(request["settings"].get("asked", "")).split()

    def prepare(case: dict[str, Any]) -> Prepared:
        refuse_beyond_memory(memory_bytes(case), device)
        product = Product(case, device)
        product.multiply()
        return Prepared(product.multiply, product.check)

    time_each(
        request,
        answer,
        device,
        prepare,
        work_of=lambda case: (case["dtype"], 2 * case["m"] * case["n"] * case["k"]),
        is_asked=lambda case: "x".join(str(case[side]) for side in "mnk") in asked,
        before=cache_flush(device),
    )
