"""Measure collectives over the local ranks by size, and `rank_compute_s`, the time of equal work on each
rank. A collective waits for its slowest rank, so its time does not show which rank is slow. The ranks' own
work shows this: all ranks start the same product of small matrices together, and each measures its own time.
A rank that takes longer than the others is a straggler.
"""

from probes.base.units import GIB, KIB, MIB
from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.bench.collective_answers import COLLECTIVES, collective_cases, collective_measurements
from probes.facts.measurements import Measurement

_LARGEST_BYTES = {
    ("cuda", "quick"): GIB,
    ("cuda", "full"): 16 * GIB,
    ("cpu", "quick"): 64 * MIB,
    ("cpu", "full"): 256 * MIB,
}
"""Largest messages; workers skip sizes that do not fit.

Messages of some GiB saturate NVLink (nccl-tests issue 212), messages of 64 MiB a CPU's memory.
"""
_BUDGET_S = {("cuda", "quick"): 8.0, ("cuda", "full"): 75.0, ("cpu", "quick"): 8.0, ("cpu", "full"): 60.0}
_GROWTH = 4
_SPARSE_GROWTH = 64
"""Factor between message sizes in the quick suite, for all collectives except all-reduce.

Four or five sizes are enough to separate latency from bandwidth.
"""
_WORK_SIZE = {"cuda": 1024, "cpu": 256}
"""Rows and columns of the matrices in the ranks' own work.

The work lasts about 0.1 ms on a GPU and 1 ms on a CPU core.
"""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request; none for a single rank."""
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

    On CPUs a rank then runs only on its own share of the cores, so that a busy core slows down its rank.
    """
    size = _WORK_SIZE[device]
    return {"work": "gemm", "dtype": "fp32", "m": size, "n": size, "k": size, "pinned": device == "cpu"}


def _sizes(largest: int, growth: int) -> tuple[int, ...]:
    """Return sizes from 1 KiB to `largest`, both included."""
    sizes = [KIB]
    while sizes[-1] * growth < largest:
        sizes.append(sizes[-1] * growth)
    return (*sizes, largest)


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the ranks' own work, then every collective and size that all ranks finished."""
    measurements = rank_work(request, lines_by_rank) + collective_measurements(request, lines_by_rank)
    return measurements or failure_of(request, lines_by_rank)


def rank_work(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...]:
    """Return `rank_compute_s` of each rank: measurements that differ only in their subject."""
    return tuple(
        answer.measurement(
            "rank_compute_s", "s", answer.sample.durations_s, {**answer.case, "world_size": request.ranks}
        )
        for answer in case_answers(request, lines_by_rank)
        if "work" in answer.case
    )
