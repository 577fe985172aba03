"""Measure collectives of several sizes over all ranks, verify the results, and time each rank's own work."""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import Any, Iterator

import torch
import torch.distributed as dist

from ..collective import Collective, buffer_bytes, free_bytes
from ..host_numa import bind, threads
from ..parallel import agreed, barrier, largest, shared_share
from ..protocol import Answer, CaseError, Timing
from ..timing import Budget, time_calls

MEMORY_MARGIN = 1.1
MEMORY_RESERVE_BYTES = 512 * 1024**2
"""Bytes kept free for the communication library's own buffers and the comparison of results."""
FEWEST_CALLS = 5
"""Minimum number of calls of a case: a verified call, a warm-up call, and three samples."""
GRACE = 0.5
"""Share of the budget by which the largest cases may exceed the budget, because these cases show the
bandwidth.
"""
SHORT_S = 0.1
"""Duration below which a case is measured even after the end of the budget.

One sample is better than none.
"""
SAMPLE_S = 0.03
"""Duration of a sample: several time slices of the scheduler (each a few milliseconds).

Another process on the same core therefore slows down all samples, and not only some of them.
"""
WARMUP_CALLS = 3
FEWEST_SAMPLES = 8
MOST_SAMPLES = 20
MOST_REPEATS = 1000


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {collective, bytes}, or {work, m, n, k, dtype, pinned} for each rank's own work.

    A collective is skipped, with the reason, if the backend lacks it, if it does not fit in memory, if it
    would exceed the remaining time, or if a smaller case had a wrong result. All ranks make the same
    decision.
    """
    cases = request["cases"]
    budget = Budget(request["budget_s"], len(cases))
    ends = time.monotonic() + (1 + GRACE) * request["budget_s"]
    given_up: dict[str, str] = {}
    seconds_per_byte: dict[str, float] = {}
    for case in cases:
        share_s = shared_share(budget, device)
        if "work" in case:
            answer.sample(case, time_own_work(case, device, share_s))
            continue
        name, size_bytes = case["collective"], case["bytes"]
        expected_s = FEWEST_CALLS * seconds_per_byte.get(name, 0.0) * size_bytes
        reason = given_up.get(name) or lacks_memory(name, size_bytes, device)
        if not reason and expected_s > max(SHORT_S, -largest(device, time.monotonic() - ends)[0]):
            reason = f"it would take about {expected_s:.1f} s, more than is left of the time budget"
        if reason:
            answer.skipped(case, reason)
            continue
        try:
            timing = measure(name, size_bytes, device, max(share_s, expected_s))
        except CaseError as error:
            given_up[name] = str(error)
            if error.kind == "unsupported":
                answer.skipped(case, str(error))
            else:
                answer.failure(error.kind, str(error), case)
            continue
        answer.sample(case, timing)
        seconds_per_byte[name] = largest(device, min(timing.durations_s))[0] / size_bytes


def measure(name: str, size_bytes: int, device: torch.device, budget_s: float) -> Timing:
    """Return the timing. Raises CaseError if a rank got a wrong result."""
    collective = Collective(name, size_bytes, device)
    wrong = collective.wrong_values()
    anywhere = largest(device, float(wrong))[0]
    if wrong:
        total, rank = collective.received.numel(), dist.get_rank()
        message = f"{name} of {size_bytes} bytes: rank {rank} received wrong values ({wrong} of {total})"
        raise CaseError("wrong_result", message)
    if anywhere:
        raise CaseError("unsupported", "another rank got a wrong result")
    barrier()
    return time_calls(collective, device, budget_s=budget_s, agree=agreed(device))


def lacks_memory(name: str, size_bytes: int, device: torch.device) -> str:
    """Return why all ranks skip a case; empty if every rank has enough memory."""
    needed = MEMORY_MARGIN * buffer_bytes(name, size_bytes, dist.get_world_size()) + MEMORY_RESERVE_BYTES
    lacking = largest(device, needed - free_bytes(device))[0]
    if lacking <= 0:
        return ""
    return f"it needs {needed / 1024**3:.1f} GiB on each rank, {lacking / 1024**3:.1f} GiB more than are free"


def time_own_work(case: dict[str, Any], device: torch.device, budget_s: float) -> Timing:
    """Return the seconds of a product {m, n, k} in fp32 on this rank, while all ranks do the same.

    All ranks compute the same number of products and begin each sample together; each rank uses its own
    clock. With `pinned` each rank stays on its own share of the CPUs; otherwise the kernel would move ranks
    away from a busy core, and the delay that the busy core causes would not be measured.
    """
    left = torch.rand(case["m"], case["k"], device=device)
    right = torch.rand(case["k"], case["n"], device=device)
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
    """Keep all threads of this process on this rank's share of the node's CPUs until the block ends."""
    if not enabled or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    share = share_of(
        sorted(allowed), int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    )
    before = {task: mask for task in threads() if (mask := affinity(task))}
    bind(share)
    try:
        yield
    finally:
        for task in threads():
            with contextlib.suppress(OSError):  # the thread has just ended
                os.sched_setaffinity(task, before.get(task, allowed))


def share_of(cpus: list[int], rank: int, ranks: int) -> set[int]:
    """Return the `rank`-th of `ranks` equal parts; if there are fewer CPUs than ranks, a shared CPU."""
    size = len(cpus) // ranks
    return set(cpus[rank * size : (rank + 1) * size]) if size else {cpus[rank % len(cpus)]}


def affinity(task: int) -> set[int]:
    """Return the CPUs of a thread; empty if the thread has just ended."""
    try:
        return os.sched_getaffinity(task)
    except OSError:
        return set()
