"""Collectives over all ranks by size, with the results verified, and the ranks' own work beside them."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from ..collective import Collective, buffer_bytes, free_bytes
from ..parallel import agreed, barrier, largest, shared_share
from ..protocol import Answer, CaseError, Timing
from ..rank_work import time_own_work
from ..timing import Budget, time_calls

MEMORY_MARGIN = 1.1
MEMORY_RESERVE_BYTES = 512 * 1024**2
"""For the communication library's own buffers and the comparison of results."""
FEWEST_CALLS = 5
"""Of one case: verified, warmed up, and three samples."""
GRACE = 0.5
"""Of the time budget: what the largest cases, which tell the bandwidth, may take beyond it."""
SHORT_S = 0.1
"""What takes less is measured even where the time is over: one sample tells more than none."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case: {collective, bytes}, or {work, m, n, k, dtype, pinned} for what each rank does by
    itself.

    A collective that the backend lacks, that does not fit the memory or would take longer than the time that
    is left is skipped with the reason, and so are the larger cases of a collective whose result was wrong.
    All decisions are the same on all ranks.
    """
    cases = request["cases"]
    budget = Budget(request["budget_s"], len(cases))
    ends = time.monotonic() + (1 + GRACE) * request["budget_s"]
    given_up: dict[str, str] = {}
    seen: dict[str, float] = {}
    for case in cases:
        share_s = shared_share(budget, device)
        if "work" in case:
            answer.sample(case, time_own_work(case, device, share_s))
            continue
        name, size_bytes = case["collective"], case["bytes"]
        expected_s = FEWEST_CALLS * seen.get(name, 0.0) * size_bytes
        reason = given_up.get(name) or lacks_memory(name, size_bytes, device)
        if not reason and expected_s > max(SHORT_S, -largest(device, time.monotonic() - ends)[0]):
            reason = f"it would take about {expected_s:.1f} s, and the time is over"
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
        if timing is None:
            given_up[name] = "another rank got a wrong result"
            answer.skipped(case, given_up[name])
            continue
        answer.sample(case, timing)
        seen[name] = largest(device, min(timing.durations_s))[0] / size_bytes


def measure(name: str, size_bytes: int, device: torch.device, budget_s: float) -> Timing | None:
    """None where another rank got a wrong result. Raises CaseError where this one did."""
    collective = Collective(name, size_bytes, device)
    wrong = collective.wrong_values()
    anywhere = largest(device, float(wrong))[0]
    if wrong:
        total, rank = collective.received.numel(), dist.get_rank()
        message = f"{name} of {size_bytes} bytes gave rank {rank} {wrong} wrong values of {total}"
        raise CaseError("wrong_result", message)
    if anywhere:
        return None
    barrier()
    return time_calls(collective, device, budget_s=budget_s, agree=agreed(device))


def lacks_memory(name: str, size_bytes: int, device: torch.device) -> str:
    """Why a case is left out on all ranks; empty where every rank has room for it."""
    needed = MEMORY_MARGIN * buffer_bytes(name, size_bytes, dist.get_world_size()) + MEMORY_RESERVE_BYTES
    lacking = largest(device, needed - free_bytes(device))[0]
    if lacking <= 0:
        return ""
    return f"it needs {needed / 1024**3:.1f} GiB on each rank, {lacking / 1024**3:.1f} GiB more than are free"
