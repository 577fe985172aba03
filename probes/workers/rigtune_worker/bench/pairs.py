"""Two ranks send to each other at the same time, each pair in its turn or disjoint pairs at once, with the
data checked.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
import torch.distributed as dist

from ..collective import ELEMENT_BYTES, buffer_bytes, exchange, free_bytes, pieces, values
from ..parallel import agreed, barrier, largest, shared_share
from ..protocol import Answer
from ..timing import Budget, time_calls


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {first, second, bytes, pairs}; of those that follow each other, disjoint ones run at
    once.

    Every rank takes part in every round, if only in agreeing on the number of calls. A pair whose data
    arrived wrong has no bandwidth.
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
    """Cases in order, together as long as no rank is in two of them and they are to run at once."""
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
    own = next((case for case in turn if rank in (case["first"], case["second"])), None)
    call: Callable[[], object] = rest
    other, wrong = -1, 0
    if own is not None:
        other = own["second"] if own["first"] == rank else own["first"]
        count = own["bytes"] // ELEMENT_BYTES
        call = functools.partial(exchange, sent[:count], other, received[:count], other)
        wrong = wrong_values(call, sent[:count], received[:count], rank, other)
    barrier()
    timing = time_calls(call, device, budget_s=budget_s, agree=agreed(device))
    if own is None:
        return
    if wrong:
        message = f"rank {rank} got {wrong} wrong values of {own['bytes'] // ELEMENT_BYTES} from rank {other}"
        answer.failure("wrong_result", message, own)
    else:
        answer.sample(own, timing)


def wrong_values(
    call: Callable[[], object], sent: torch.Tensor, received: torch.Tensor, rank: int, other: int
) -> int:
    """Exchange known data and count what arrived otherwise."""
    for owner, first, part in pieces(sent, [(rank, 0, sent.numel())]):
        part.copy_(values(owner, first, part.numel(), sent.device))
    received.fill_(-1)
    call()
    expected = pieces(received, [(other, 0, received.numel())])
    return sum(
        int((part != values(owner, first, part.numel(), sent.device)).sum())
        for owner, first, part in expected
    )


def rest() -> None:
    """What a rank does that rests in this round."""
