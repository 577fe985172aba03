"""Measure TCP between hosts: `tcp_bandwidth_bytes_per_s` per direction, by one stream and by several.

One stream is limited by one core or by its window; several streams show the link. Disjoint pairs run at once.
Rank 0 writes the samples of all ranks: seconds per byte in windows of a fifth of a second.
"""

from __future__ import annotations

from probes.bench.answers import failure_of, measurement, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.tournament import rounds
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_STREAMS = (1, 8)
"""Numbers of streams.

Eight are more than gloo or NCCL over sockets open to a host, and enough to fill 100 Gb/s.
"""
_SECONDS = {"quick": 1.0, "full": 2.0}
"""Seconds of sending, for each direction of each pair."""
_MOST_ROUNDS = {"quick": 7, "full": 15}
"""Most partners that each host meets, to limit the time on large clusters."""
_OVERHEAD_S = 0.2


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with a single rank per host; none on a single host."""
    if len(context.hosts) < 2:
        return ()
    meetings = rounds(len(context.hosts))[: _MOST_ROUNDS[context.suite]]
    cases: list[Case] = []
    for streams in _STREAMS:
        for meeting in meetings:
            cases += [{"sender": first, "receiver": second, "streams": streams} for first, second in meeting]
            cases += [{"sender": second, "receiver": first, "streams": streams} for first, second in meeting]
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
            cases=tuple(cases),
            # The token rejects ranks of another run that listen on the same port.
            settings={"seconds": seconds, "token": " ".join(context.hosts)},
            hosts=context.hosts,
            spread_by=context.spread_by,
            needs_torch=False,
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return one measurement per direction of each pair and number of streams.

    Subjects are `node1->node2`.
    """
    start = start_of(lines_by_rank.get(0, ()))
    measurements = []
    for sample in samples_of(request, lines_by_rank.get(0, ())) if start is not None else ():
        ends = [_host(request, lines_by_rank, sample.case[end]) for end in ("sender", "receiver")]
        parameters: dict[str, Parameter] = {"streams": sample.case["streams"], "nodes": len(request.hosts)}
        rates = tuple(1 / duration_s for duration_s in sample.durations_s)
        assert start is not None  # noqa: S101 - there are no samples without it
        measurements.append(
            measurement(
                request,
                start,
                parameters,
                "tcp_bandwidth_bytes_per_s",
                unit="byte/s",
                samples=rates,
                subject="->".join(ends),
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)


def _host(request: BenchRequest, lines_by_rank: LinesByRank, rank: Parameter) -> str:
    """Return the host of a rank as the rank reported it: a scheduler may order hosts differently."""
    start = start_of(lines_by_rank.get(int(rank), ()))
    named = start.conditions.get("hostname") if start is not None else None
    return str(named or request.hosts[int(rank)])
