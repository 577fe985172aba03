"""Time calls for all benchmarks: with CUDA events on a GPU, with the host clock on a CPU."""

from __future__ import annotations

import time
from typing import Callable

import torch

from .protocol import Timing
from .sampling import take_samples


def elapsed_s(
    call: Callable[[], object], device: torch.device, repeats: int, before: Callable[[], object] | None = None
) -> float:
    """Return the mean seconds per call over `repeats` consecutive calls.

    `before` runs before each call and is not timed.
    """
    if device.type == "cuda":
        return _elapsed_cuda_s(call, device, repeats, before)
    rounds, calls = (1, repeats) if before is None else (repeats, 1)
    total_s = 0.0
    for _ in range(rounds):
        if before is not None:
            before()
        started = time.perf_counter()
        for _ in range(calls):
            call()
        total_s += time.perf_counter() - started
    return total_s / repeats


def _elapsed_cuda_s(
    call: Callable[[], object], device: torch.device, repeats: int, before: Callable[[], object] | None
) -> float:
    """Time all calls between one pair of events, or each call between its own pair if `before` is given.

    All calls are queued together, so that the time of `before` also hides the cost of launches.
    """
    rounds, calls = (1, repeats) if before is None else (repeats, 1)
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds)
    ]
    torch.cuda.synchronize(device)
    for begin, end in events:
        if before is not None:
            before()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
    torch.cuda.synchronize(device)
    return sum(begin.elapsed_time(end) for begin, end in events) / 1e3 / repeats


def time_calls(
    call: Callable[[], object],
    device: torch.device,
    *,
    budget_s: float,
    sample_s: float = 0.02,
    agree: Callable[[float], float] = float,
    before: Callable[[], object] | None = None,
) -> Timing:
    """Return durations of `call`, one per sample, within about `budget_s` (see `sampling.take_samples`).

    Collectives need `agree` (`parallel.agreed`), and so do ranks that measure at the same time: a rank that
    ended early would leave its share of the memory's bandwidth to the others. `before` runs before every
    call, outside of the timed part, for instance to flush caches.
    """
    return take_samples(
        lambda repeats: elapsed_s(call, device, repeats, before),
        budget_s=budget_s,
        sample_s=sample_s,
        agree=agree,
    )


class Budget:
    """The remaining time for a list of cases, shared evenly among the remaining cases."""

    def __init__(self, budget_s: float, cases: int) -> None:
        self.ends = time.monotonic() + budget_s
        self.cases = cases
        self.over = f"the benchmark's time of {budget_s:g} s was used up before this case"
        """Reason why a case is left out."""

    def next_case(self) -> float:
        """Return the seconds for the next case; 0 if the budget is spent and the case must be skipped."""
        share = max(0.0, self.ends - time.monotonic()) / max(1, self.cases)
        self.cases -= 1
        return share
