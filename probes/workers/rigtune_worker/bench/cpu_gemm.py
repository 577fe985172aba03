"""Measure matrix multiplication on one NUMA node's CPUs with all its cores.

This rate is available to prepare data beside the GPUs.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..cases import SkipCaseError, each_case, refuse_overrun
from ..host_numa import bind, usable_cpus
from ..product import Product
from ..protocol import Answer
from ..sampling import FEWEST_SAMPLES
from ..timing import time_calls

FEWEST_CALLS = FEWEST_SAMPLES + 2
"""Fewest calls of a case, including a warm-up of two."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {numa_node, dtype, m, n, k}, smallest first within node and dtype.

    A product that would exceed its time, judged by a smaller product, is skipped: without instructions for
    bf16 it can be a hundred times slower than fp32.
    """
    nodes = sorted({case["numa_node"] for case in request["cases"]})
    cpus = {node: usable_cpus(request["numa_cpus"], node, request["threads_per_rank"]) for node in nodes}
    seconds_per_flop: dict[Any, float] = {}

    def prepare(case: dict[str, Any], budget_s: float) -> Callable[[], None]:
        node, kind, flops = (
            case["numa_node"],
            (case["numa_node"], case["dtype"]),
            2 * case["m"] * case["n"] * case["k"],
        )
        if not cpus[node]:
            raise SkipCaseError("this process may use no CPU of the node")
        refuse_overrun(seconds_per_flop.get(kind, 0.0) * flops * FEWEST_CALLS, budget_s)
        torch.set_num_threads(len(cpus[node]))
        bind(cpus[node])
        product = Product(case, device)

        def measure() -> None:
            timing = time_calls(product.multiply, device, budget_s=budget_s)
            seconds_per_flop[kind] = min(timing.durations_s) / flops
            product.check()
            answer.sample(case, timing, threads=len(cpus[node]))

        return measure

    each_case(request, answer, device, prepare)
