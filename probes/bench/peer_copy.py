"""Measure copies between every pair of GPUs: `peer_bandwidth_bytes_per_s`, in one direction, and in both
directions at the same time.

The bytes of both directions are added. `peer_access` states whether the driver allows the sender to access
the receiver's memory; otherwise copies pass through the host.
"""

import itertools

from probes.base.units import MIB
from probes.bench.answers import case_answers, ends_of, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome

_BYTES = 256 * MIB
_BUDGET_S = {"quick": 3.0, "full": 30.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one process that uses all GPUs; none for a single GPU.

    The quick suite measures only one direction at a time.
    """
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
    """Return all GPUs in the facts; the worker detects which GPUs the interpreter may use."""
    indices = [gpu.index for gpu in context.gpus] or range(context.ranks_per_node)
    return [f"GPU{index}" for index in indices]


def _case(sender: str, receiver: str, direction: str) -> Case:
    return {"from": sender, "to": receiver, "direction": direction, "bytes": _BYTES}


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the bandwidth of every pair, with the same name for both directions: `GPU0-GPU1`."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        case, ways = answer.case, 2 if answer.case["direction"] == "both" else 1
        parameters = {**case, "peer_access": bool(answer.sample.figures.get("peer_access"))}
        measurements.append(
            answer.measurement(
                "peer_bandwidth_bytes_per_s",
                "byte/s",
                answer.rates(float(case["bytes"]) * ways),
                parameters,
                subject=ends_of(case),
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
