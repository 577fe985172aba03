"""Measure memory bandwidth of one NUMA node at a time: copy and triad of STREAM, one thread per usable core.

Source of the operations: www.cs.virginia.edu/stream. Copy is the C library's memmove (as in mbw, and in
STREAM built by gcc), which bypasses the caches for large copies. Triad is torch's a = b + s c, with ordinary
stores. The CPUs of a node write the arrays first, which places them in that node's memory; the placement is
checked before the timing.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, Callable

import torch

from ..cases import SkipCaseError, each_case
from ..host_numa import bind, free_bytes, last_level_cache_bytes, share_on_node, usable_cpus
from ..protocol import Answer, CaseError, Timing
from ..sampling import take_samples
from ..timing import time_calls

MIB = 1024**2
LEAST_BYTES = 64 * MIB
USUAL_BYTES = 256 * MIB
CACHES = 4
"""Smallest size of an array, as a multiple of the size of the last-level caches (STREAM's rule)."""
SHARE_OF_FREE = 0.1
"""Largest share of the free memory for each of the three arrays."""
ON_NODE = 0.9
"""Share of an array that must be on the requested node."""
SAMPLE_S = 0.1
"""Seconds of a sample; threads of Python start within some milliseconds of each other."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {operation, numa_node, memory_node}.

    Consecutive cases with the same memory share arrays.
    """
    most, numa_cpus = request["threads_per_rank"], request["numa_cpus"]
    cpus = {
        node: usable_cpus(numa_cpus, node, most)
        for node in sorted({case["numa_node"] for case in request["cases"]})
    }
    size_bytes = array_bytes(cpus)
    arrays = Arrays()

    def prepare(case: dict[str, Any], budget_s: float) -> Callable[[], None]:
        of_node, of_memory = cpus[case["numa_node"]], cpus.get(case["memory_node"])
        if not of_node or not of_memory:
            raise SkipCaseError("this process may use no CPU of the node")
        started = time.monotonic()
        arrays.place(case["memory_node"], of_memory, size_bytes)
        use(of_node)
        left_s = max(budget_s / 2, budget_s - (time.monotonic() - started))
        time_operation = time_copies if case["operation"] == "copy" else time_triads

        def measure() -> None:
            timing = time_operation(arrays, len(of_node), left_s)
            answer.sample(case, timing, array_bytes=size_bytes, threads=len(of_node))

        return measure

    each_case(request, answer, device, prepare)


def array_bytes(cpus: dict[int, list[int]]) -> int:
    """Return one size for all nodes, so that nodes are comparable.

    Raises CaseError if the memory is too small.
    """
    caches = max(last_level_cache_bytes(of_node) for of_node in cpus.values())
    # If the free memory is unknown, the usual size is safe on a machine that trains.
    free = min(free_bytes(node) for node in cpus) or int(USUAL_BYTES / SHARE_OF_FREE)
    size_bytes = min(max(USUAL_BYTES, CACHES * caches), int(free * SHARE_OF_FREE)) // MIB * MIB
    if size_bytes < LEAST_BYTES:
        raise CaseError(
            "out_of_memory", f"{free // MIB} MiB of free memory are not enough to measure its bandwidth"
        )
    return size_bytes


class Arrays:
    """Three arrays in the memory of one node at a time."""

    def __init__(self) -> None:
        self.node: int | None = None
        self.on_node: float | None = None
        self.tensors: list[torch.Tensor] = []

    def place(self, node: int, cpus: list[int], size_bytes: int) -> None:
        """Let the node's CPUs write the arrays first, so that the kernel places the arrays on that node.
        Raises CaseError if the kernel places them elsewhere.
        """
        if node != self.node:
            use(cpus)
            self.tensors, self.node = [], node
            self.tensors = [torch.empty(size_bytes // 8, dtype=torch.float64) for _ in range(3)]
            for value, tensor in enumerate(self.tensors):
                tensor.fill_(value)
            self.on_node = share_on_node([tensor.data_ptr() for tensor in self.tensors], node)
        if self.on_node is not None and self.on_node < ON_NODE:
            raise CaseError(
                "unsupported", f"only {self.on_node:.0%} of the memory could be placed on NUMA node {node}"
            )


def use(cpus: list[int]) -> None:
    torch.set_num_threads(len(cpus))
    bind(cpus)


def time_triads(arrays: Arrays, threads: int, budget_s: float) -> Timing:
    """Return the seconds per triad a = b + s c over the whole arrays."""
    target, first, second = arrays.tensors
    return time_calls(
        lambda: torch.add(first, second, alpha=3.0, out=target),
        target.device,
        budget_s=budget_s,
        sample_s=SAMPLE_S,
    )


def time_copies(arrays: Arrays, threads: int, budget_s: float) -> Timing:
    """Return the seconds per copy of the whole array; each thread copies its part. Raises CaseError."""
    target, source, _ = arrays.tensors
    size_bytes = source.numel() * source.element_size()
    bounds = [size_bytes * number // threads // 64 * 64 for number in range(threads)] + [size_bytes]
    begin, end, repeats = threading.Barrier(threads + 1), threading.Barrier(threads + 1), [0]

    def copy(number: int) -> None:
        place, length = bounds[number], bounds[number + 1] - bounds[number]
        while True:
            begin.wait()
            if not repeats[0]:
                return
            for _ in range(repeats[0]):
                ctypes.memmove(target.data_ptr() + place, source.data_ptr() + place, length)
            end.wait()

    def sample(count: int) -> float:
        repeats[0] = count
        begin.wait()
        started = time.perf_counter()
        end.wait()
        return (time.perf_counter() - started) / count

    workers = [threading.Thread(target=copy, args=(number,), daemon=True) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        timing = take_samples(sample, budget_s=budget_s, sample_s=SAMPLE_S)
    finally:
        repeats[0] = 0
        begin.wait()
        for worker in workers:
            worker.join()
    if not torch.equal(target, source):
        raise CaseError("wrong_result", "the copy differs from its source")
    return timing
