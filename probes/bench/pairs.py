"""Measure bandwidth between each two ranks: `pair_bandwidth_bytes_per_s`, one measurement per pair.

Both ranks send at the same time; the figure is what one of them sends per second, so one direction of a link
in use in both. All `disjoint` pairs run at once: pairs through a faulty switch or fabric are then slower. One
pair at a time (`alone`) shows the link itself, without other traffic.
"""

from __future__ import annotations

from probes.base.units import MIB
from probes.bench.answers import failure_of, measurement, rank_subject, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.tournament import rounds
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_BYTES = {"cuda": 256 * MIB, "cpu": 16 * MIB}
"""Size that saturates a link between two ranks: peer copies reach their rate with some tens of MiB."""
_BUDGET_S = {"cuda": 30.0, "cpu": 15.0}
_MOST_ALONE = 28
"""Pairs of eight ranks.

More ranks run disjoint pairs only, because the number of pairs grows with the square.
"""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with all pairs in the rounds of a tournament; none for a single rank."""
    ranks = context.ranks_per_node
    if ranks < 2:
        return ()
    pairs = [pair for round_ in rounds(ranks) for pair in round_]
    ways = ["disjoint"] if ranks > 3 else []  # fewer ranks have no two disjoint pairs
    ways += ["alone"] if len(pairs) <= _MOST_ALONE else []
    cases: list[Case] = [
        {"first": first, "second": second, "bytes": _BYTES[context.device], "pairs": way}
        for way in ways
        for first, second in pairs
    ]
    return (
        BenchRequest(
            bench_id="pairs",
            title=f"bandwidth of {len(pairs)} pair{'s' if len(pairs) > 1 else ''} of ranks",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device],
            shares_start=True,
            cases=tuple(cases),
            subjects=context.subjects,
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the rate of each pair. A sample lasts as long as the slower of the two ranks."""
    measurements: list[Measurement] = []
    starts = {rank: start for rank, lines in lines_by_rank.items() if (start := start_of(lines)) is not None}
    answers = {
        rank: {_key(sample.case): sample.durations_s for sample in samples_of(request, lines_by_rank[rank])}
        for rank in starts
    }
    for case in request.cases:
        pair = [
            rank
            for rank in (case["first"], case["second"])
            if isinstance(rank, int) and _key(case) in answers.get(rank, {})
        ]
        if len(pair) < 2:
            continue
        first, second = pair
        durations_s = tuple(
            map(max, zip(answers[first][_key(case)], answers[second][_key(case)], strict=False))
        )
        parameters: dict[str, Parameter] = {
            "bytes": case["bytes"],
            "pairs": case["pairs"],
            "world_size": request.ranks,
            "backend": request.backend,
        }
        rates = tuple(float(case["bytes"]) / duration_s for duration_s in durations_s)
        subject = "-".join(rank_subject(request, starts[rank], rank) for rank in pair)
        measurements.append(
            measurement(
                request,
                starts[first],
                parameters,
                "pair_bandwidth_bytes_per_s",
                unit="byte/s",
                samples=rates,
                subject=subject if request.device == "cuda" else f"rank {first}-rank {second}",
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)


def _key(case: Case) -> tuple[Parameter, ...]:
    return tuple(value for _, value in sorted(case.items()))
