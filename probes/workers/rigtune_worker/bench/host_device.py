"""Measure copies between host memory on a chosen NUMA node and this rank's GPU."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Iterator

import torch
import torch.distributed as dist

from ..cases import HOST, all_ready, attempt
from ..copies import Copies, bound_to, check_pattern, page_locked, pattern
from ..parallel import agreed, shared_share
from ..protocol import Answer, CaseError, Timing
from ..rank_conditions import device_uuid
from ..timing import Budget, time_calls

TO_DEVICE, TO_HOST = 1, 2
"""Seeds for the data of the two directions."""
DIRECTIONS = {"host_to_device": (TO_DEVICE,), "device_to_host": (TO_HOST,), "both": (TO_DEVICE, TO_HOST)}


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {direction, pinned, concurrent, bytes}, with `near`, `numa_node` or neither.

    With `concurrent` all ranks copy at the same time, otherwise one after the other, because they share PCIe
    switches. All ranks write and check memory at the same time, outside their turns.
    """
    ranks = dist.get_world_size()
    budget = Budget(request["budget_s"], sum(1 if case["concurrent"] else ranks for case in request["cases"]))
    for case in request["cases"]:
        node = node_of(case, request, device)
        with contextlib.ExitStack() as held:
            prepare = functools.partial(prepared, case, request, node, device)
            copies = attempt(answer, case, device, lambda: held.enter_context(prepare()))  # noqa: B023
            if not all_ready(answer, case, copies is not None):
                continue
            copies()
            time_copies = at_once if case["concurrent"] else in_turn
            timing = time_copies(copies, device, budget)
            attempt(answer, case, device, lambda: write(answer, case, copies, timing, node))  # noqa: B023


def at_once(copies: Copies, device: torch.device, budget: Budget) -> Timing:
    """Return the timing of this rank's copies while all ranks copy."""
    return time_calls(copies, device, budget_s=shared_share(budget, HOST), agree=agreed(HOST))


def in_turn(copies: Copies, device: torch.device, budget: Budget) -> Timing:
    """Return the timing of this rank's copies while the others wait."""
    for turn in range(dist.get_world_size()):
        share_s = shared_share(budget, HOST)  # waits until the previous turn is over
        if turn == dist.get_rank():
            timing = time_calls(copies, device, budget_s=share_s)
    return timing


def node_of(case: dict[str, Any], request: dict[str, Any], device: torch.device) -> int | None:
    """Return the NUMA node of this rank's host memory; None if the case names no node."""
    if "numa_node" in case:
        return case["numa_node"]
    if "near" not in case:
        return None
    name = request["subjects"].get(device_uuid(device)) or f"GPU{os.environ.get('LOCAL_RANK', '0')}"
    return request["settings"].get(f"{'near' if case['near'] else 'far'} {name}")


@contextlib.contextmanager
def prepared(
    case: dict[str, Any], request: dict[str, Any], node: int | None, device: torch.device
) -> Iterator[Copies]:
    """Yield the copies of one case, and keep this process on the node's CPUs meanwhile. Raises CaseError."""
    if "near" in case and node is None:
        raise CaseError("unsupported", "the NUMA node of this GPU is not known")
    cpus = request["numa_cpus"].get(str(node), ())
    if node is not None and not cpus:
        raise CaseError("unsupported", f"NUMA node {node} has no CPU to write its memory from")
    with contextlib.ExitStack() as held:
        held.enter_context(bound_to(cpus))
        pairs = []
        for seed in DIRECTIONS[case["direction"]]:
            from_, to = (HOST, device) if seed == TO_DEVICE else (device, HOST)
            source = pattern(case["bytes"], seed, from_)
            target = torch.zeros_like(source, device=to)
            held.enter_context(
                page_locked(source if from_ is HOST else target, case["pinned"] and device.type == "cuda")
            )
            pairs.append((source, target))
        yield Copies(*pairs)


def write(answer: Answer, case: dict[str, Any], copies: Copies, timing: Timing, node: int | None) -> None:
    """Write the sample after a check of the data."""
    for seed, (_, target) in zip(DIRECTIONS[case["direction"]], copies.pairs):
        check_pattern(target, seed, f"a copy {case['direction'].replace('_', ' ')}")
    answer.sample(case, timing, **({} if node is None else {"numa_node": node}))
