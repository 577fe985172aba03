"""Time the same work on each rank alone, because a collective's time hides which rank is slow."""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import Any, Iterator

import torch

from .parallel import barrier, largest
from .protocol import Timing

SAMPLE_S = 0.03
"""Several of a scheduler's time slices (a few milliseconds).

A neighbour on the same core then shows in every sample.
"""
WARMUP_CALLS = 3
FEWEST_SAMPLES = 8
MOST_SAMPLES = 20
MOST_REPEATS = 1000
TASKS = "/proc/self/task"


def time_own_work(case: dict[str, Any], device: torch.device, budget_s: float) -> Timing:
    """Return the seconds of a product {m, n, k} in fp32 on this rank, while all ranks do the same.

    All ranks make as many products and begin each sample together, each with its own clock. With `pinned`
    each rank stays on its own share of the CPUs; otherwise the kernel would move ranks, and the delay with
    them, away from a busy core.
    """
    left, right = (
        torch.rand(case["m"], case["k"], device=device),
        torch.rand(case["k"], case["n"], device=device),
    )
    product = torch.empty(case["m"], case["n"], device=device)

    def work(repeats: int) -> float:
        started = time.perf_counter()
        for _ in range(repeats):
            torch.mm(left, right, out=product)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return (time.perf_counter() - started) / repeats

    with own_cpus(enabled=bool(case.get("pinned"))):
        estimates = [work(1) for _ in range(WARMUP_CALLS)]
        slowest, negative_fastest = largest(device, estimates[-1], -estimates[-1])
        repeats = max(1, min(MOST_REPEATS, math.ceil(SAMPLE_S / max(1e-9, -negative_fastest))))
        affordable = int(budget_s / max(1e-9, slowest * repeats))
        durations_s = []
        for _ in range(max(FEWEST_SAMPLES, min(MOST_SAMPLES, affordable))):
            barrier()
            durations_s.append(work(repeats))
    return Timing(durations_s, WARMUP_CALLS, repeats)


@contextlib.contextmanager
def own_cpus(*, enabled: bool) -> Iterator[None]:
    """Keep all threads of this process on this rank's share of the CPUs of the node's ranks."""
    if not enabled or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    share = share_of(
        sorted(allowed), int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    )
    before = {task: mask for task in tasks() if (mask := affinity(task))}
    for task in before:
        pin(task, share)
    try:
        yield
    finally:
        for task in tasks():
            pin(task, before.get(task, allowed))


def share_of(cpus: list[int], rank: int, ranks: int) -> set[int]:
    """Return the `rank`-th of `ranks` equal parts; with fewer CPUs than ranks, a shared CPU."""
    size = len(cpus) // ranks
    return set(cpus[rank * size : (rank + 1) * size]) if size else {cpus[rank % len(cpus)]}


def tasks() -> list[int]:
    """Return the threads of this process; only the first without procfs."""
    try:
        return [int(name) for name in os.listdir(TASKS)]
    except OSError:
        return [0]


def affinity(task: int) -> set[int]:
    """Return the mask of a thread; empty if it has just ended."""
    try:
        return os.sched_getaffinity(task)
    except OSError:
        return set()


def pin(task: int, cpus: set[int]) -> None:
    with contextlib.suppress(OSError):  # the thread has just ended
        os.sched_setaffinity(task, cpus)
