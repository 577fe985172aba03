"""Measure how many DataLoader workers to start: `batch_rate_per_s` per rank, and `recommended_workers`.

All local ranks load at the same time. The slowest rank determines the time of a batch, because the training
step waits for this rank.
"""

from pathlib import PurePosixPath

from probes.base.statistics import quantile
from probes.base.units import plural
from probes.bench.answers import failure_of, slowest_rank
from probes.bench.bench_requests import BenchContext, BenchRequest, LinesByRank, Outcome
from probes.bench.numa_nodes import most_threads

_BATCH_SIZE = 32
_GOOD = 0.95
"""Share of the best rate that is good enough.

More workers than are needed for this share only cost memory and start-up time.
"""
_MOST_WORKERS = 64
_BUDGET_S = {"quick": 15.0, "full": 40.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with 0, 1, 2, 4 ... workers per rank, up to this rank's share of the CPUs."""
    settings = context.settings
    return (
        BenchRequest(
            bench_id="data-loader",
            title=f"data loaders of {plural(context.ranks_per_node, 'rank')}",
            device="cpu",
            backend="gloo",
            ranks=context.ranks_per_node,
            threads_per_rank=1,
            budget_s=_BUDGET_S[context.suite],
            cases=tuple(
                {"num_workers": workers, "batch_size": _BATCH_SIZE}
                for workers in _worker_counts(most_threads(context.facts) // context.ranks_per_node)
            ),
            settings={
                "data_path": str(PurePosixPath(settings.folder) / settings.data_path)
                if settings.data_path
                else ""
            },
        ),
    )


def _worker_counts(cpus: int) -> list[int]:
    """Return the numbers of workers to try: zero, powers of two, and the number of CPUs (at most 64)."""
    most = min(max(1, cpus), _MOST_WORKERS)
    return sorted({0, most, *(2**power for power in range(most.bit_length()))})


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rate for each number of workers, and the smallest number above 0 near the best rate."""
    measurements = []
    parameters = {"world_size": request.ranks, "data_path": request.settings["data_path"]}
    rates: dict[int, float] = {}
    for answer in slowest_rank(request, lines_by_rank):
        samples = answer.rates(1)
        rates[int(answer.case["num_workers"])] = quantile(samples, 0.5)
        measurements.append(
            answer.measurement("batch_rate_per_s", "1/s", samples, {**answer.case, **parameters})
        )
    if not measurements:
        return failure_of(request, lines_by_rank)
    # Zero workers are never recommended, even if this is fastest: the training step would wait for its own
    # loading.
    rates.pop(0, None)
    if rates:
        enough = min(workers for workers, rate in rates.items() if rate >= _GOOD * max(rates.values()))
        measurements.append(
            answer.measurement(
                "recommended_workers", "1", (float(enough),), {"batch_size": _BATCH_SIZE, **parameters}
            )
        )
    return tuple(measurements)
