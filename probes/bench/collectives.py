"""Measure collectives over the local ranks by size, and `rank_compute_s`, the same work on each rank alone.

A collective waits for its slowest rank, so its time does not reveal that rank. The ranks' own work does: a
product of small matrices, started on all ranks together and timed by each. All ranks are equal, so a rank
that takes longer is a straggler.
"""

from __future__ import annotations

from probes.base.units import GIB, KIB, MIB
from probes.bench.answers import failure_of, measurement, rank_subject, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.collective_answers import COLLECTIVES, collective_cases, collective_measurements
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_LARGEST_BYTES = {
    ("cuda", "quick"): GIB,
    ("cuda", "full"): 16 * GIB,
    ("cpu", "quick"): 64 * MIB,
    ("cpu", "full"): 256 * MIB,
}
"""Largest messages; workers skip sizes that do not fit.

NVLink needs some GiB to be saturated (nccl-tests issue 212), a CPU's memory 64 MiB.
"""
_BUDGET_S = {("cuda", "quick"): 8.0, ("cuda", "full"): 75.0, ("cpu", "quick"): 8.0, ("cpu", "full"): 60.0}
_GROWTH = 4
_SPARSE_GROWTH = 64
"""Growth of sizes for all but all-reduce in the quick suite.

Three or four sizes are enough to separate latency from bandwidth.
"""
_WORK_SIZE = {"cuda": 1024, "cpu": 256}
"""Rows and columns of the ranks' own work.

The work lasts about 0.1 ms on a GPU and 1 ms on a CPU core.
"""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request; none for a single rank, which has no partner."""
    if context.ranks_per_node < 2:
        return ()
    largest = _LARGEST_BYTES[context.device, context.suite]
    sparse = _SPARSE_GROWTH if context.suite == "quick" else _GROWTH
    sizes = {name: _sizes(largest, _GROWTH if name == "all_reduce" else sparse) for name in COLLECTIVES}
    return (
        BenchRequest(
            bench_id="collectives",
            title=f"collectives over {context.ranks_per_node} ranks",
            device=context.device,
            backend=context.backend,
            ranks=context.ranks_per_node,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device, context.suite],
            shares_start=True,
            cases=(own_work(context.device), *collective_cases(sizes, context.ranks_per_node)),
            subjects=context.subjects,
        ),
    )


def own_work(device: str) -> Case:
    """Return the case of each rank's own work.

    On CPUs a rank stays on its own share of the cores meanwhile, so that a busy core shows.
    """
    size = _WORK_SIZE[device]
    return {"work": "gemm", "dtype": "fp32", "m": size, "n": size, "k": size, "pinned": device == "cpu"}


def _sizes(largest: int, growth: int) -> tuple[int, ...]:
    """Return sizes from 1 KiB to `largest`, both included."""
    sizes = [KIB]
    while sizes[-1] * growth < largest:
        sizes.append(sizes[-1] * growth)
    return (*sizes, largest)


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the ranks' own work, then every collective and size that all ranks finished."""
    measurements = rank_work(request, lines_by_rank) + collective_measurements(request, lines_by_rank)
    return measurements or failure_of(request, lines_by_rank)


def rank_work(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...]:
    """Return `rank_compute_s` of each rank: measurements that differ only in their subject."""
    measurements: list[Measurement] = []
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        for sample in samples_of(request, lines) if start is not None else ():
            if start is None or "work" not in sample.case:
                continue
            parameters: dict[str, Parameter] = {**sample.case, "world_size": request.ranks}
            subject, times = rank_subject(request, start, rank), sample.durations_s
            measurements.append(
                measurement(
                    request, start, parameters, "rank_compute_s", unit="s", samples=times, subject=subject
                )
            )
    return tuple(measurements)
