"""How every benchmark takes its times: warm up until it settles, then samples with the device synchronised around each."""

from __future__ import annotations

import math
import time
from typing import Callable

import torch

from .protocol import Timing

SETTLED = 0.1
"""Two warm-up calls in a row that differ by less than this fraction end the warm-up."""
WARMUP_SHARE = 0.3
"""Of the time budget, at most."""
FEWEST_SAMPLES = 3
MOST_SAMPLES = 20
MOST_REPEATS = 1000


def elapsed_s(
    call: Callable[[], object], device: torch.device, repeats: int, before: Callable[[], object] | None = None
) -> float:
    """Seconds per call, over `repeats` calls in a row. CUDA events on the current stream, the host clock on a CPU.

    `before` runs ahead of each call and outside its time, such as a write that leaves nothing of the call's data in a cache.
    """
    if before is not None:
        return sum(elapsed_after(before, call, device, repeats)) / repeats
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / repeats
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


def elapsed_after(before: Callable[[], object], call: Callable[[], object], device: torch.device, repeats: int) -> list[float]:
    """Seconds of each call; on a GPU all are enqueued at once, so that `before` also hides the cost of the launches."""
    if device.type == "cuda":
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
        torch.cuda.synchronize(device)
        for begin, end in events:
            before()
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize(device)
        return [begin.elapsed_time(end) / 1e3 for begin, end in events]
    durations_s = []
    for _ in range(repeats):
        before()
        started = time.perf_counter()
        call()
        durations_s.append(time.perf_counter() - started)
    return durations_s


def time_calls(
    call: Callable[[], object],
    device: torch.device,
    *,
    budget_s: float,
    sample_s: float = 0.02,
    agree: Callable[[float], float] = float,
    before: Callable[[], object] | None = None,
) -> Timing:
    """Durations of `call`, one per sample, within about `budget_s` (and at least three samples).

    A sample is the mean over as many calls as fill `sample_s`, so that short calls are not lost in the clock's resolution.
    Calls that are collectives need `agree`: it makes all ranks decide on the same number, for instance their largest.
    `before` runs ahead of each call and is not timed.
    """
    warmup_ends = WARMUP_SHARE * budget_s
    estimate = agree(elapsed_s(call, device, 1, before))
    spent, warmup_calls = estimate, 1
    while spent < warmup_ends:
        last, estimate = estimate, agree(elapsed_s(call, device, 1, before))
        spent, warmup_calls = spent + estimate, warmup_calls + 1
        if abs(estimate - last) <= SETTLED * last:
            break
    one_call = max(estimate, 1e-9)
    repeats = max(1, min(MOST_REPEATS, math.ceil(sample_s / one_call)))
    affordable = int((budget_s - spent) / (one_call * repeats))
    samples = max(FEWEST_SAMPLES, min(MOST_SAMPLES, affordable))
    return Timing([elapsed_s(call, device, repeats, before) for _ in range(samples)], warmup_calls, repeats)


class Budget:
    """The time that is left for a list of cases, shared evenly among those still to come."""

    def __init__(self, budget_s: float, cases: int) -> None:
        self.ends = time.monotonic() + budget_s
        self.cases = cases

    def next_case(self) -> float:
        share = max(0.0, self.ends - time.monotonic()) / max(1, self.cases)
        self.cases -= 1
        return share
