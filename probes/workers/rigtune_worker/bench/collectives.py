"""Measure collectives over all ranks by size with verified results, and the ranks' own work."""

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
"""Bytes for the communication library's own buffers and the comparison of results."""
FEWEST_CALLS = 5
"""Fewest calls of a case: one verified, one for warm-up, and three samples."""
GRACE = 0.5
"""Share of the time budget that the largest cases, which show the bandwidth, may exceed it by."""
SHORT_S = 0.1
"""Duration below which a case is measured even after the end of the budget.

One sample is better than none.
"""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {collective, bytes}, or {work, m, n, k, dtype, pinned} for each rank's own work.

    A collective that the backend lacks, that does not fit the memory or would exceed the remaining time is
    skipped with the reason; so are larger cases of a collective with a wrong result. All ranks decide alike.
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
        seconds_per_byte[name] = largest(device, min(timing.durations_s))[0] / size_bytes


def measure(name: str, size_bytes: int, device: torch.device, budget_s: float) -> Timing | None:
    """Return the timing; None if another rank got a wrong result. Raises CaseError if this rank did."""
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
    """Return why all ranks skip a case; empty if every rank has enough memory."""
    needed = MEMORY_MARGIN * buffer_bytes(name, size_bytes, dist.get_world_size()) + MEMORY_RESERVE_BYTES
    lacking = largest(device, needed - free_bytes(device))[0]
    if lacking <= 0:
        return ""
    return f"it needs {needed / 1024**3:.1f} GiB on each rank, {lacking / 1024**3:.1f} GiB more than are free"
