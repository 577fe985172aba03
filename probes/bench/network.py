"""Measure TCP between hosts: `tcp_bandwidth_bytes_per_s` per direction, with one stream and with several.

One core or the TCP window limits one stream; several streams show the rate of the link. Disjoint pairs run at
the same time. Rank 0 writes the samples of all ranks: seconds per byte in windows of a fifth of a second.
"""

from probes.bench.answers import case_answers, failure_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.bench.tournament import rounds
from probes.facts.measurements import Parameter

_STREAMS = (1, 8)
"""Numbers of streams; eight streams can fill 100 Gb/s."""
_SECONDS = {"quick": 1.0, "full": 2.0}
"""Seconds of sending, for each direction of each pair."""
_MOST_ROUNDS = {"quick": 7, "full": 15}
"""Maximum number of partners of a host, to limit the time on large clusters."""
_OVERHEAD_S = 0.2


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with a single rank per host; no request on a single host."""
    if len(context.hosts) < 2:
        return ()
    meetings = rounds(len(context.hosts))[: _MOST_ROUNDS[context.suite]]
    cases: tuple[Case, ...] = tuple(
        {"sender": pair[sender], "receiver": pair[1 - sender], "streams": streams}
        for streams in _STREAMS
        for meeting in meetings
        for sender in (0, 1)
        for pair in meeting
    )
    seconds = _SECONDS[context.suite]
    return (
        BenchRequest(
            bench_id="network",
            title=f"TCP between {len(context.hosts)} hosts",
            device="cpu",
            backend="gloo",
            ranks=len(context.hosts),
            threads_per_rank=context.threads_per_rank,
            budget_s=2 * len(_STREAMS) * len(meetings) * (seconds + _OVERHEAD_S),
            cases=cases,
            # The token rejects ranks of another run that uses the same port, also on the same hosts.
            settings={"seconds": seconds, "token": " ".join((context.run_token, *context.hosts))},
            hosts=context.hosts,
            spread_by=context.spread_by,
            needs_torch=False,
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return one measurement per direction of each pair and number of streams.

    Subjects are `node1->node2`.
    """
    measurements = []
    for answer in case_answers(request, {0: lines_by_rank.get(0, ())}):
        ends = [_host(request, lines_by_rank, answer.case[end]) for end in ("sender", "receiver")]
        parameters = {"streams": answer.case["streams"], "nodes": len(request.hosts)}
        measurements.append(
            answer.measurement(
                "tcp_bandwidth_bytes_per_s", "byte/s", answer.rates(1), parameters, subject="->".join(ends)
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)


def _host(request: BenchRequest, lines_by_rank: LinesByRank, rank: Parameter) -> str:
    """Return the host of a rank as the rank reported it, because a scheduler may order hosts differently."""
    start = start_of(lines_by_rank.get(int(rank), ()))
    named = start.conditions.get("hostname") if start is not None else None
    return str(named or request.hosts[int(rank)])
