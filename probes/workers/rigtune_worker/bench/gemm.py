"""Matrix multiplication rate: C[m, n] = A[m, k] B[k, n] with random data (zeros would let the clocks rise)."""

from __future__ import annotations

from typing import Any

import torch

from ..parallel import barrier
from ..protocol import Answer, Timing, is_out_of_memory
from ..timing import FEWEST_SAMPLES, Budget, time_calls

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {dtype, m, n, k}, smallest first within a dtype. All ranks measure at the same time, each on its device.

    A case that would overrun its share of the budget by far, judged by the one before it of the same dtype, is skipped: bf16 on
    a CPU without such instructions can be a hundred times slower than fp32.
    """
    budget = Budget(request["budget_s"], len(request["cases"]))
    seconds_per_flop: dict[str, float] = {}
    for case in request["cases"]:
        barrier()
        share_s = budget.next_case()
        flops = 2 * case["m"] * case["n"] * case["k"]
        least_s = seconds_per_flop.get(case["dtype"], 0.0) * flops * (FEWEST_SAMPLES + 2)
        if least_s > 2 * share_s:
            answer.skipped(case, f"would take {least_s:.1f} s of {share_s:.1f} s")
            continue
        try:
            timing = measure(case, device, share_s)
        except RuntimeError as error:
            kind = "out_of_memory" if is_out_of_memory(error) else "unsupported"
            answer.failure(kind, str(error), case)
            continue
        seconds_per_flop[case["dtype"]] = min(timing.durations_s) / flops
        answer.sample(case, timing)


def measure(case: dict[str, Any], device: torch.device, budget_s: float) -> Timing:
    dtype = DTYPES[case["dtype"]]
    torch.set_float32_matmul_precision("high" if case["dtype"] == "tf32" else "highest")
    a = torch.randn(case["m"], case["k"], device=device).to(dtype)
    b = torch.randn(case["k"], case["n"], device=device).to(dtype)
    c = torch.empty(case["m"], case["n"], device=device, dtype=dtype)
    return time_calls(lambda: torch.mm(a, b, out=c), device, budget_s=budget_s)
