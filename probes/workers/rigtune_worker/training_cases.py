"""Run the cases of a training benchmark in order, and continue after those that do not fit."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.distributed as dist

from .parallel import cases_within_budget
from .protocol import Answer, SetupError, is_out_of_memory


def measure_cases(
    request: dict[str, Any],
    answer: Answer,
    device: torch.device,
    measure: Callable[[dict[str, Any], float], None],
    *,
    variant: tuple[str, ...],
) -> None:
    """Call `measure(case, budget_s)` for every case; cases with equal `variant` fields differ only in size.

    A case that this torch does not support is reported. On one rank, running out of memory ends the larger
    cases of the same variant; on several ranks it ends the worker, because the other ranks wait in a
    collective.
    """
    too_large = set()
    for case, share_s in cases_within_budget(request, answer, device):
        kind = tuple(case[name] for name in variant)
        if kind in too_large:
            answer.skipped(case, "a smaller micro-batch did not fit")
            continue
        try:
            measure(case, share_s)
        except SetupError as error:
            answer.failure("unsupported", str(error), case)
        except (RuntimeError, MemoryError) as error:
            if dist.get_world_size() > 1 or not is_out_of_memory(error):
                raise
            answer.failure("out_of_memory", f"out of memory with micro-batch {case['micro_batch']}", case)
            too_large.add(kind)
