"""Measure matrix multiplication: C[m, n] = A[m, k] B[k, n] by dtype and shape."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..cases import SkipCaseError, each_case, refuse_overrun, together
from ..memory_limit import refuse_beyond_memory
from ..product import Product, cache_flush, memory_bytes
from ..protocol import Answer, CaseError
from ..timing import FEWEST_SAMPLES, time_calls

FEWEST_CALLS = FEWEST_SAMPLES + 2
"""Fewest calls of a case, including a warm-up of two."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {dtype, m, n, k}, smallest first within a dtype, on all ranks at the same time.

    A case that would far exceed its share of the budget, judged by the previous case of the same dtype, is
    skipped: bf16 on a CPU without such instructions can be a hundred times slower than fp32. A case that the
    user asked for fails instead.
    """
    flush = cache_flush(device)
    asked = str(request["settings"].get("asked", "")).split()
    seconds_per_flop: dict[str, float] = {}

    def prepare(case: dict[str, Any], budget_s: float) -> Callable[[], None]:
        flops = 2 * case["m"] * case["n"] * case["k"]
        least_s = seconds_per_flop.get(case["dtype"], 0.0) * flops * FEWEST_CALLS
        try:
            refuse_overrun(least_s, budget_s)
        except SkipCaseError as reason:
            if "x".join(str(case[side]) for side in "mnk") in asked:
                raise CaseError("timeout", str(reason)) from None
            raise
        refuse_beyond_memory(memory_bytes(case), device)
        product = Product(case, device)
        product.multiply()

        def measure() -> None:
            timing = time_calls(product.multiply, device, budget_s=budget_s, before=flush, agree=together())
            seconds_per_flop[case["dtype"]] = min(timing.durations_s) / flops
            product.check()
            answer.sample(case, timing)

        return measure

    each_case(request, answer, device, prepare)
