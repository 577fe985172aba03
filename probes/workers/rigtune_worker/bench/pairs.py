"""Measure pairs of ranks that send to each other, and verify the received data.

Pairs send one at a time, or disjoint pairs send at the same time.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
import torch.distributed as dist

from ..collective import ELEMENT_BYTES, buffer_bytes, exchange, fill, free_bytes, pieces, values
from ..parallel import agreed, barrier, largest, shared_share
from ..protocol import Answer
from ..timing import Budget, time_calls


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {first, second, bytes, pairs}; consecutive disjoint cases run at the same time.

    Every rank takes part in every round, because all ranks agree on the number of calls. A pair with wrong
    data has no bandwidth.
    """
    turns = rounds(request["cases"])
    budget = Budget(request["budget_s"], len(turns))
    most = max(int(case["bytes"]) for case in request["cases"])
    lacking = largest(device, buffer_bytes("send_recv", most, dist.get_world_size()) - free_bytes(device))[0]
    if lacking > 0:
        for case in request["cases"]:
            answer.skipped(case, f"each rank needs {lacking / 1024**2:.0f} MiB more than are free")
        return
    sent, received = (torch.empty(most // ELEMENT_BYTES, device=device) for _ in range(2))
    for turn in turns:
        share_s = shared_share(budget, device)
        if share_s > 0:
            measure(turn, sent, received, answer, share_s)
        for case in turn if share_s <= 0 else ():
            answer.skipped(case, budget.over)


def rounds(cases: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rounds: consecutive `disjoint` cases without a common rank, or any other case alone."""
    turns: list[list[dict[str, Any]]] = []
    for case in cases:
        busy = {rank for other in turns[-1] for rank in (other["first"], other["second"])} if turns else set()
        joins = bool(turns) and case["pairs"] == turns[-1][0]["pairs"] == "disjoint"
        if joins and not busy & {case["first"], case["second"]}:
            turns[-1].append(case)
        else:
            turns.append([case])
    return turns


def measure(
    turn: list[dict[str, Any]], sent: torch.Tensor, received: torch.Tensor, answer: Answer, budget_s: float
) -> None:
    rank, device = dist.get_rank(), sent.device
    case_of_rank = next((case for case in turn if rank in (case["first"], case["second"])), None)
    call: Callable[[], object] = do_nothing
    other, wrong, count = -1, 0, 0
    if case_of_rank is not None:
        other = case_of_rank["second"] if case_of_rank["first"] == rank else case_of_rank["first"]
        count = case_of_rank["bytes"] // ELEMENT_BYTES
        call = functools.partial(exchange, sent[:count], other, received[:count], other)
        wrong = wrong_values(call, sent[:count], received[:count], rank, other)
    barrier()
    timing = time_calls(call, device, budget_s=budget_s, agree=agreed(device))
    if case_of_rank is None:
        return
    if wrong:
        message = f"rank {rank} got {wrong} wrong values of {count} from rank {other}"
        answer.failure("wrong_result", message, case_of_rank)
    else:
        answer.sample(case_of_rank, timing)


def wrong_values(
    call: Callable[[], object], sent: torch.Tensor, received: torch.Tensor, rank: int, other: int
) -> int:
    """Exchange known data and return the number of wrong values."""
    fill(sent, rank)
    received.fill_(-1)
    call()
    expected = pieces(received, [(other, 0, received.numel())])
    return sum(
        int((part != values(owner, first, part.numel(), sent.device)).sum())
        for owner, first, part in expected
    )


def do_nothing() -> None:
    """Send nothing: this rank is in no pair of the round, and only agrees with the others on the number of
    calls.
    """
