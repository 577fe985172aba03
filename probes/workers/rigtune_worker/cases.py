"""How benchmarks whose ranks work alone go through their cases: together, each within its share of the
time.
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar

import torch

from .parallel import agreed, cases_within_budget, largest
from .protocol import Answer, CaseError, is_out_of_memory, is_peer_lost

T = TypeVar("T")
Case = dict
HOST = torch.device("cpu")
OVERRUN = 2.0
"""A case may take this many times its share of the budget; the shares of those that take less make up for
it.
"""


class SkipCaseError(Exception):
    """The case does not exist on this device, or would overrun the time; the message is the reason."""


def each_case(
    request: dict[str, Any],
    answer: Answer,
    device: torch.device,
    prepare: Callable[[Case, float], Callable[[], object]],
) -> None:
    """Every case of the request, on all ranks at the same time: they share power, buses and memory, as they
    will when training.

    `prepare(case, budget_s)` allocates, and calls once what is to be measured; what it returns measures and
    writes the sample, and may wait for the other ranks (`together`), because a case that one rank cannot
    prepare is left out by all.
    """
    for case, share_s in cases_within_budget(request, answer, HOST):
        measure = attempt(answer, case, device, lambda case=case, share_s=share_s: prepare(case, share_s))
        if all_ready(answer, case, measure is not None):
            attempt(answer, case, device, measure)
        del measure  # with the memory that it holds


def all_ready(answer: Answer, case: Case, ready: bool) -> bool:
    """Whether every rank is; where this one is and another is not, the answer says so. Every rank must call
    this.
    """
    others_failed = largest(HOST, float(not ready))[0] > 0
    if ready and others_failed:
        answer.skipped(case, "another rank could not prepare it")
    return ready and not others_failed


def together() -> Callable[[float], float]:
    """What makes the ranks take the same samples (`time_calls`): one that ended early would leave its share
    to the others.
    """
    return agreed(HOST)


def refuse_overrun(least_s: float, budget_s: float) -> None:
    """Raises SkipCaseError on all ranks alike when the case would take any of them far longer than its share.

    `least_s` is the time of the fewest calls, judged by an earlier case; 0 where there was none. Every rank
    must call this first.
    """
    if largest(HOST, least_s / max(budget_s, 1e-9))[0] > OVERRUN:
        raise SkipCaseError(f"would take about {least_s:.1f} s, where {budget_s:.1f} s are left for it")


def attempt(answer: Answer, case: Case, device: torch.device, action: Callable[[], T]) -> T | None:
    """What `action` returns; None where it cannot be, which the answer then tells. The other cases go on.

    Raises what leaves the device unusable, such as an uncorrectable memory error, and the end of another
    rank: nothing after these would be a measurement.
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
        torch.cuda.empty_cache()  # what the failed case held must not make the next one fail
    return None


def is_device_lost(error: BaseException) -> bool:
    """True for errors of the CUDA runtime, after which every call of the process fails; those of cuBLAS
    concern one call.
    """
    words = str(error)
    return not is_out_of_memory(error) and "CUDA error" in words and "CUBLAS" not in words


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
