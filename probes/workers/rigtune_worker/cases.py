"""Run the cases of benchmarks in which each rank works independently.
All ranks run a case at the same time, within the case's share of the time budget.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, TypeVar

import torch

from .parallel import agreed, cases_within_budget, largest
from .protocol import Answer, CaseError, first_line, is_out_of_memory, is_peer_lost
from .sampling import FEWEST_SAMPLES
from .timing import time_calls

T = TypeVar("T")
Case = dict
HOST = torch.device("cpu")
OVERRUN = 2.0
"""Factor by which a case may exceed its share of the budget; shorter cases compensate for the excess."""
FEWEST_CALLS = FEWEST_SAMPLES + 2
"""Minimum number of calls of a case, including a warm-up of two calls."""


class SkipCaseError(Exception):
    """A case that does not exist on this device, or would take too long; the message is the reason."""


def each_case(
    request: dict[str, Any],
    answer: Answer,
    device: torch.device,
    prepare: Callable[[Case, float], Callable[[], object]],
) -> None:
    """Run every case of the request at the same time on all ranks, which share power, buses and memory.

    `prepare(case, budget_s)` allocates memory and makes the first call; it returns the function that measures
    and writes the sample. That function may wait for the other ranks, because all ranks skip a case that one
    rank cannot prepare.
    """
    for case, share_s in cases_within_budget(request, answer, HOST):
        measure = attempt(answer, case, device, lambda case=case, share_s=share_s: prepare(case, share_s))
        if all_ready(answer, case, measure is not None):
            attempt(answer, case, device, measure)
        del measure  # this frees the memory of the case


class Prepared(NamedTuple):
    """A case that is ready to be timed."""

    call: Callable[[], object]
    check: Callable[[], object] = lambda: None
    """Function that checks the result after the timing; it raises CaseError for a wrong result."""
    figures: dict[str, float] = {}
    """Additional values that are recorded with the sample."""


def time_each(
    request: dict[str, Any],
    answer: Answer,
    device: torch.device,
    prepare: Callable[[Case], Prepared],
    *,
    work_of: Callable[[Case], tuple[object, float]] = lambda case: (None, 0.0),
    is_asked: Callable[[Case], bool] = lambda case: False,
    before: Callable[[], object] | None = None,
) -> None:
    """Time the call of every case on all ranks at the same time.

    `work_of` returns the kind of a case and its amount of work. A case is skipped if it would far exceed its
    share of the budget, estimated from the previous case of the same kind; a case that the user requested
    fails instead. `before` runs before each call and is not timed.
    """
    seconds_per_work: dict[object, float] = {}

    def prepare_case(case: Case, budget_s: float) -> Callable[[], None]:
        kind, work = work_of(case)
        try:
            refuse_overrun(seconds_per_work.get(kind, 0.0) * work * FEWEST_CALLS, budget_s)
        except SkipCaseError as reason:
            if is_asked(case):
                raise CaseError("timeout", str(reason)) from None
            raise
        call, check, figures = prepare(case)

        def measure() -> None:
            # A rank that ended early would leave its share of power, buses and memory to the others.
            timing = time_calls(call, device, budget_s=budget_s, before=before, agree=agreed(HOST))
            if work:
                seconds_per_work[kind] = min(timing.durations_s) / work
            check()
            answer.sample(case, timing, **figures)

        return measure

    each_case(request, answer, device, prepare_case)


def all_ready(answer: Answer, case: Case, ready: bool) -> bool:
    """Return whether every rank is ready; if only another rank is not ready, the answer reports this.

    Every rank must call this function.
    """
    others_failed = largest(HOST, float(not ready))[0] > 0
    if ready and others_failed:
        answer.skipped(case, "another rank could not prepare it")
    return ready and not others_failed


def refuse_overrun(least_s: float, budget_s: float) -> None:
    """Raise SkipCaseError on all ranks if the case would far exceed its time share on any rank.

    `least_s` is the time of the minimum number of calls, estimated from an earlier case; 0 without an earlier
    case. Every rank must call this function.
    """
    if largest(HOST, least_s / max(budget_s, 1e-9))[0] > OVERRUN:
        raise SkipCaseError(f"would take about {least_s:.1f} s, but only {budget_s:.1f} s are left for it")


def attempt(answer: Answer, case: Case, device: torch.device, action: Callable[[], T]) -> T | None:
    """Return the result of `action`; None after a failure, which the answer reports. Other cases continue.

    Errors that leave the device unusable, such as an uncorrectable memory error, and errors caused by the end
    of another rank are raised, because no later measurement would be valid.
    """
    try:
        return action()
    except SkipCaseError as reason:
        answer.skipped(case, str(reason))
    except CaseError as error:
        answer.failure(error.kind, str(error), case)
    except (RuntimeError, MemoryError) as error:
        if is_device_lost(error) or is_peer_lost(error):
            raise
        kind = "out_of_memory" if is_out_of_memory(error) else "unsupported"
        answer.failure(kind, first_line(error), case)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # the memory of the failed case could make the next case fail
    return None


def is_device_lost(error: BaseException) -> bool:
    """Return True for errors of the CUDA runtime, after which every call fails.

    Errors of cuBLAS concern only one call.
    """
    words = str(error)
    return not is_out_of_memory(error) and "CUDA error" in words and "CUBLAS" not in words
