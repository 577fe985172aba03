"""All-reduce over the local ranks: `collective_time_s`, and `bus_bandwidth_bytes_per_s` by the definition of nccl-tests.

Algorithm bandwidth is bytes over time. Bus bandwidth is that times 2 (n - 1) / n, the share of the data that each rank must send
and receive, so that it compares with a link's rate whatever the number of ranks (nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from probes.bench.answers import failure_of, measurement, slowest_rank
from probes.benching import BenchContext, BenchRequest
from probes.measurements import BenchFailure, Measurement, Parameter
from probes.parsers.worker_lines import LinesByRank
from probes.units import KIB, MIB

_LARGEST_BYTES = {"cuda": 1024 * MIB, "cpu": 64 * MIB}
"""NVLink is not saturated by less than some hundred MiB; a CPU's memory is by 64 MiB."""
_BUDGET_S = {"cuda": 10.0, "cpu": 5.0}
_GROWTH = 4


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request with sizes from 1 KiB; none where there is a single rank and so nothing to reduce over."""
    if context.ranks_per_node < 2:
        return ()
    sizes = [KIB]
    while sizes[-1] * _GROWTH <= _LARGEST_BYTES[context.device]:
        sizes.append(sizes[-1] * _GROWTH)
    return (
        BenchRequest(
            bench_id="collectives",
            title=f"all-reduce over {context.ranks_per_node} ranks",
            device=context.device,
            backend=context.backend,
            ranks=context.ranks_per_node,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device],
            cases=tuple({"collective": "all_reduce", "bytes": size} for size in sizes),
        ),
    )


def bus_bandwidth_factor(ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth of an all-reduce."""
    return 2 * (ranks - 1) / ranks


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Time and bus bandwidth of every size. A sample takes as long as its slowest rank."""
    measurements: list[Measurement] = []
    for start, case, durations_s, _ in slowest_rank(request, lines_by_rank):
        factor = float(case["bytes"]) * bus_bandwidth_factor(request.ranks)
        parameters: dict[str, Parameter] = {**case, "world_size": request.ranks, "backend": request.backend}
        rates = tuple(factor / duration_s for duration_s in durations_s)
        measurements += [
            measurement(request, start, parameters, "collective_time_s", unit="s", samples=durations_s),
            measurement(request, start, parameters, "bus_bandwidth_bytes_per_s", unit="byte/s", samples=rates),
        ]
    return tuple(measurements) or failure_of(request, lines_by_rank)
