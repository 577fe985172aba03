"""Measure collectives over the ranks of all hosts, then the links between the hosts, all hosts at the same
time.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from ..collective import ELEMENT_BYTES
from ..collective import exchange as exchange_together
from ..parallel import barrier, largest
from ..protocol import Answer, CaseError
from . import collectives

WARMUP_CALLS = 2
FEWEST_SAMPLES = 3
MOST_SAMPLES = 10


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure cases {collective, bytes} like `collectives`, and cases {distance, bytes}.

    Every host sends to the host that is `distance` places ahead and receives from the host that is as many
    places behind. Every rank of a host sends to its counterpart on the other host.
    """
    shifts = [case for case in request["cases"] if "distance" in case]
    together = [case for case in request["cases"] if "distance" not in case]
    share = len(together) / max(1, len(request["cases"])) if shifts else 1.0
    if together:
        collectives.run(
            {**request, "cases": together, "budget_s": request["budget_s"] * share}, answer, device
        )
    ranks_per_host = dist.get_world_size() // max(1, len(request["hosts"]))
    for case in shifts:
        budget_s = request["budget_s"] * (1 - share) / len(shifts)
        answer.sample(case, measure(case["distance"] * ranks_per_host, case["bytes"], device, budget_s))


def measure(offset: int, size_bytes: int, device: torch.device, budget_s: float) -> list[float]:
    """Return the seconds of each exchange on this rank. Raises CaseError if wrong data arrived."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    target, source = (rank + offset) % world_size, (rank - offset) % world_size
    sent = torch.full((max(1, size_bytes // ELEMENT_BYTES),), float(rank), device=device)
    received = torch.full_like(sent, -1.0)
    for _ in range(WARMUP_CALLS):
        barrier()
        took_s = largest(device, exchange(sent, target, received, source))[0]
    wrong = int((received != source).sum())
    if wrong:
        raise CaseError(
            "wrong_result",
            f"rank {rank} received {wrong} wrong values of {received.numel()} from rank {source}",
        )
    samples = max(FEWEST_SAMPLES, min(MOST_SAMPLES, int(budget_s / max(took_s, 1e-9))))
    durations_s = []
    for _ in range(samples):
        barrier()
        durations_s.append(exchange(sent, target, received, source))
    return durations_s


def exchange(sent: torch.Tensor, target: int, received: torch.Tensor, source: int) -> float:
    """Return the seconds until all data from `source` arrived.

    NCCL has one kernel for both directions, so with NCCL both directions must be complete.
    """
    if sent.device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        exchange_together(sent, target, received, source)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3
    started = time.perf_counter()
    receiving, sending = dist.irecv(received, source), dist.isend(sent, target)
    receiving.wait()
    took_s = time.perf_counter() - started
    sending.wait()
    return took_s
