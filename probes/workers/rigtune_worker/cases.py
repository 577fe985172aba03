"""Run the cases of benchmarks whose ranks work alone: all ranks together, each case within its time share."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

import torch

from .parallel import agreed, cases_within_budget, largest
from .protocol import Answer, CaseError, is_out_of_memory, is_peer_lost

T = TypeVar("T")
Case = dict
HOST = torch.device("cpu")
OVERRUN = 2.0
"""Multiple of its share of the budget that a case may take; shorter cases compensate for it."""


class SkipCaseError(Exception):
    """A case that does not exist on this device, or would exceed the time; the message is the reason."""


def each_case(
    request: dict[str, Any],
    answer: Answer,
    device: torch.device,
    prepare: Callable[[Case, float], Callable[[], object]],
) -> None:
    """Run every case of the request on all ranks at the same time, which share power, buses and memory.

    `prepare(case, budget_s)` allocates memory and makes the first call; it returns the function that measures
    and writes the sample. That function may wait for the other ranks (`together`), because all ranks skip a
    case that one rank cannot prepare.
    """
    for case, share_s in cases_within_budget(request, answer, HOST):
        measure = attempt(answer, case, device, lambda case=case, share_s=share_s: prepare(case, share_s))
        if all_ready(answer, case, measure is not None):
            attempt(answer, case, device, measure)
        del measure  # with the memory that it holds


def all_ready(answer: Answer, case: Case, ready: bool) -> bool:
    """Return whether every rank is ready; if only another rank is not, the answer reports it.

    Every rank must call this function.
    """
    others_failed = largest(HOST, float(not ready))[0] > 0
    if ready and others_failed:
        answer.skipped(case, "another rank could not prepare it")
    return ready and not others_failed


def together() -> Callable[[float], float]:
    """Return the function that makes the ranks take the same samples (`time_calls`).

    A rank that ended early would leave its share to the others.
    """
    return agreed(HOST)


def refuse_overrun(least_s: float, budget_s: float) -> None:
    """Raise SkipCaseError on all ranks if the case would far exceed its time share on any rank.

    `least_s` is the time of the fewest calls, judged by an earlier case; 0 without one. Every rank must call
    this first.
    """
    if largest(HOST, least_s / max(budget_s, 1e-9))[0] > OVERRUN:
        raise SkipCaseError(f"would take about {least_s:.1f} s, where {budget_s:.1f} s are left for it")


def attempt(answer: Answer, case: Case, device: torch.device, action: Callable[[], T]) -> T | None:
    """Return the result of `action`; None after a failure, which the answer reports. Other cases continue.

    Raises errors that leave the device unusable, such as an uncorrectable memory error, and the end of
    another rank: no later measurement would be valid.
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
        if not is_out_of_memory(error):
            answer.failure("unsupported", first_line(error), case)
        else:
            answer.failure("out_of_memory", first_line(error), case)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # memory of the failed case must not make the next case fail
    return None


def is_device_lost(error: BaseException) -> bool:
    """Return True for errors of the CUDA runtime, after which every call fails.

    Errors of cuBLAS concern only one call.
    """
    words = str(error)
    return not is_out_of_memory(error) and "CUDA error" in words and "CUBLAS" not in words


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
