"""Measure matrix multiplication on the CPUs of one NUMA node, with one thread per usable core.

The rate shows how fast the CPUs of a GPU machine can prepare data.
"""

from __future__ import annotations

from typing import Any

import torch

from ..cases import Prepared, SkipCaseError, time_each
from ..host_numa import bind, usable_cpus
from ..product import Product
from ..protocol import Answer


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {numa_node, dtype, m, n, k}, smallest first within node and dtype.

    The time of each case is estimated from a smaller product, because bf16 can be a hundred times slower than
    fp32 on a CPU without bf16 instructions.
    """
    nodes = sorted({case["numa_node"] for case in request["cases"]})
    cpus = {node: usable_cpus(request["numa_cpus"], node, request["threads_per_rank"]) for node in nodes}

    def prepare(case: dict[str, Any]) -> Prepared:
        cpus_of_node = cpus[case["numa_node"]]
        if not cpus_of_node:
            raise SkipCaseError("this process may use no CPU of the node")
        torch.set_num_threads(len(cpus_of_node))
        bind(cpus_of_node)
        product = Product(case, device)
        return Prepared(product.multiply, product.check, {"threads": len(cpus_of_node)})

    time_each(
        request,
        answer,
        device,
        prepare,
        work_of=lambda case: ((case["numa_node"], case["dtype"]), 2 * case["m"] * case["n"] * case["k"]),
    )
