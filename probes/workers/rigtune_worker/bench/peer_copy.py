"""Measure copies between every pair of GPUs, from one process that uses all GPUs."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ..cases import attempt
from ..copies import Copies, check_pattern, pattern
from ..protocol import Answer
from ..rank_conditions import device_uuid
from ..timing import Budget, time_calls


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    measure_matrix(request, answer, visible_devices(request["subjects"]))


def visible_devices(subjects: dict[str, str]) -> dict[str, torch.device]:
    """Return this process's GPUs by rigtune's names; torch may number them differently."""
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return {subjects.get(device_uuid(device)) or f"GPU{device.index}": device for device in devices}


def measure_matrix(request: dict[str, Any], answer: Answer, devices: dict[str, torch.device]) -> None:
    """Measure every case {from, to, direction, bytes} between two of `devices`, and skip other cases."""
    cases = [case for case in request["cases"] if case["from"] in devices and case["to"] in devices]
    for case in request["cases"]:
        if case not in cases:
            hidden = [case[end] for end in ("from", "to") if case[end] not in devices]
            answer.skipped(case, f"{' and '.join(hidden)} cannot be seen by this interpreter")
    budget = Budget(request["budget_s"], len(cases))
    seeds = {name: seed for seed, name in enumerate(devices)}
    for case in cases:
        share_s = budget.next_case()
        if share_s <= 0:
            answer.skipped(case, budget.over)
            continue
        attempt(
            answer,
            case,
            devices[case["from"]],
            lambda: measure(case, answer, devices, seeds, share_s),  # noqa: B023
        )


def measure(
    case: dict[str, Any],
    answer: Answer,
    devices: dict[str, torch.device],
    seeds: dict[str, int],
    budget_s: float,
) -> None:
    """Measure one case.

    The receiver computes the sender's pattern itself and compares it with the data that arrived.
    """
    ways = [(case["from"], case["to"])] + (
        [(case["to"], case["from"])] if case["direction"] == "both" else []
    )
    pairs = []
    for sender, receiver in ways:
        source = pattern(case["bytes"], seeds[sender], devices[sender])
        pairs.append((source, torch.zeros_like(source, device=devices[receiver])))
    first = devices[case["from"]]
    # Copies run on the sender's current stream, and events are recorded on the current device.
    with torch.cuda.device(first) if first.type == "cuda" else contextlib.nullcontext():
        copies = Copies(*pairs)
        settle(devices.values())
        # Torch enables peer access with the first copy, which takes as long as many copies.
        copies()
        settle(devices.values())
        timing = time_calls(copies, first, budget_s=budget_s)
        settle(devices.values())
    for (sender, receiver), (_, target) in zip(ways, pairs):
        check_pattern(target, seeds[sender], f"a copy from {sender} to {receiver}")
    answer.sample(case, timing, peer_access=float(peer_access(first, devices[case["to"]])))


def settle(devices: Any) -> None:
    """Wait until all GPUs are idle; the sender's copies do not wait for the receiver's stream."""
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def peer_access(a: torch.device, b: torch.device) -> bool:
    """Return whether the driver allows peer access; without it, copies pass through the host."""
    return a.type == b.type == "cuda" and torch.cuda.can_device_access_peer(a, b)
