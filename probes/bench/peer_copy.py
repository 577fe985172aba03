"""Measure copies between each two GPUs: `peer_bandwidth_bytes_per_s`, one way and both ways at once.

The bytes of both ways add up. `peer_access` states whether the driver lets the sender reach the receiver's
memory; otherwise copies pass through the host.
"""

from __future__ import annotations

import itertools

from probes.base.record import known
from probes.base.units import MIB
from probes.bench.answers import failure_of, measurement, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.worker_answers import LinesByRank
from probes.facts import Gpu
from probes.facts.measurements import BenchFailure, Measurement

_BYTES = 256 * MIB
_BUDGET_S = {"quick": 3.0, "full": 30.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one process that uses all GPUs; none for a single GPU. The quick suite omits both ways."""
    names = _names(context)
    if context.device != "cuda" or context.ranks_per_node < 2 or len(names) < 2:
        return ()
    one_way = [_case(a, b, "one_way") for a, b in itertools.permutations(names, 2)]
    both_ways = [_case(a, b, "both") for a, b in itertools.combinations(names, 2)]
    return (
        BenchRequest(
            bench_id="peer-copy",
            title=f"copies between {len(names)} GPUs",
            device=context.device,
            backend="gloo",
            ranks=1,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.suite],
            cases=tuple(one_way + both_ways if context.suite == "full" else one_way),
            subjects=context.subjects,
        ),
    )


def _names(context: BenchContext) -> list[str]:
    """Return all GPUs of the facts; the worker detects which of them the interpreter may use."""
    gpus: tuple[Gpu, ...] = context.facts.gpus if known(context.facts.gpus) else ()
    return [f"GPU{gpu.index}" for gpu in gpus] or [f"GPU{rank}" for rank in range(context.ranks_per_node)]


def _case(sender: str, receiver: str, direction: str) -> Case:
    return {"from": sender, "to": receiver, "direction": direction, "bytes": _BYTES}


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the bandwidth of every pair, with the same name for both directions: `GPU0-GPU1`."""
    measurements = []
    for lines in lines_by_rank.values():
        start = start_of(lines)
        if start is None:
            continue
        for sample in samples_of(request, lines):
            moved = float(sample.case["bytes"]) * (2 if sample.case["direction"] == "both" else 1)
            ends = sorted(
                (str(sample.case["from"]), str(sample.case["to"])), key=lambda name: (len(name), name)
            )
            measurements.append(
                measurement(
                    request,
                    start,
                    {**sample.case, "peer_access": bool(sample.figures.get("peer_access"))},
                    "peer_bandwidth_bytes_per_s",
                    unit="byte/s",
                    samples=tuple(moved / duration_s for duration_s in sample.durations_s),
                    subject="-".join(ends),
                )
            )
    return tuple(measurements) or failure_of(request, lines_by_rank)
