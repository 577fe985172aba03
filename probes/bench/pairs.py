"""Measure bandwidth between every pair of ranks: `pair_bandwidth_bytes_per_s`, one measurement per pair.

Both ranks send at the same time. The figure is the number of bytes that one rank sends per second, so it
counts only one of the two directions. In the way `disjoint`, all pairs of a round run at once, so that pairs
through a faulty switch or fabric are slower. One pair at a time (`alone`) shows the link itself, without
other traffic.
"""

from probes.base.units import MIB, plural
from probes.bench.answers import CaseAnswer, case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome, SampleLine
from probes.bench.tournament import rounds

_BYTES = {"cuda": 256 * MIB, "cpu": 16 * MIB}
"""Size that saturates a link between two ranks: some tens of MiB are enough for peer copies."""
_BUDGET_S = {"cuda": 30.0, "cpu": 15.0}
_MOST_ALONE = 28
"""Maximum number of pairs that are also measured one at a time: the pairs among eight ranks.

With more ranks, all pairs are measured only as `disjoint`, because the number of pairs grows with the square
of the number of ranks.
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
            title=f"bandwidth of {plural(len(pairs), 'pair')} of ranks",
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rate of each pair. A sample has the duration of the slower of the two ranks."""
    measurements = []
    answers: dict[int, list[CaseAnswer]] = {
        rank: list(case_answers(request, {rank: lines})) for rank, lines in lines_by_rank.items()
    }
    for case in request.cases:
        ranks = [rank for rank in (case["first"], case["second"]) if isinstance(rank, int)]
        pair = [answer for rank in ranks for answer in answers.get(rank, ()) if answer.case == case]
        if len(pair) < 2:
            continue
        durations_s = map(max, zip(*(answer.sample.durations_s for answer in pair), strict=False))
        slower = pair[0]._replace(sample=SampleLine(case=case, durations_s=tuple(durations_s)))
        subjects = [
            answer.subject if request.device == "cuda" else f"rank {rank}"
            for answer, rank in zip(pair, ranks, strict=True)
        ]
        parameters = {
            "bytes": case["bytes"],
            "pairs": case["pairs"],
            "world_size": request.ranks,
            "backend": request.backend,
        }
        measurements.append(
            slower.measurement(
                "pair_bandwidth_bytes_per_s",
                "byte/s",
                slower.rates(float(case["bytes"])),
                parameters,
                subject="-".join(subjects),
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
