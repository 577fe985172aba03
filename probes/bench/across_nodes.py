"""Measure collectives across hosts, and the bandwidth of each pair of hosts and each host.

Hosts are arranged in a circle. In each round every host sends to the host that is a fixed number of places
ahead, and receives from the host that is as many places behind. Each link then carries one transfer at full
rate, and n - 1 rounds cover all n (n - 1) links; on large clusters only some of the rounds are measured.
`pair_bandwidth_bytes_per_s` has the subject `node1->node2` for one direction, with all ranks of the host
together. `host_bandwidth_bytes_per_s` is the median over a host's pairs in both directions: a single slow
link does not change this figure, but a slow host does.
"""

import msgspec

from probes.base.statistics import quantile
from probes.base.units import GIB, KIB, MIB
from probes.bench.answers import CaseAnswer, failure_of, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome, SampleLine
from probes.bench.collective_answers import collective_cases, collective_measurements
from probes.facts.measurements import Measurement

PAIR_METRIC = "pair_bandwidth_bytes_per_s"
_COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")
"""Collectives of data parallelism, sharding and experts across hosts."""
_SIZES = {
    ("cuda", "quick"): (MIB, 64 * MIB, GIB),
    ("cuda", "full"): (KIB, 32 * KIB, MIB, 16 * MIB, 256 * MIB, GIB, 8 * GIB),
    ("cpu", "quick"): (KIB, MIB, 16 * MIB),
    ("cpu", "full"): (KIB, 32 * KIB, MIB, 16 * MIB, 64 * MIB),
}
"""Message sizes. A fabric of 400 Gb/s is not saturated below 1 GiB."""
_PAIR_BYTES = {"cuda": 256 * MIB, "cpu": 8 * MIB}
_PAIR_S = {"cuda": 0.5, "cpu": 0.5}
"""Seconds for a round of pairs."""
_MOST_ROUNDS = 63
"""Maximum number of distances that are measured, to limit the time on large clusters."""
_COLLECTIVES_S = {"quick": 30.0, "full": 120.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request for the ranks of all hosts; no request for a single host."""
    if len(context.hosts) < 2:
        return ()
    ranks = len(context.hosts) * context.ranks_per_node
    sizes = dict.fromkeys(_COLLECTIVES, _SIZES[context.device, context.suite])
    pairs = pair_cases(len(context.hosts), context.device)
    budget_s = _COLLECTIVES_S[context.suite] + len(pairs) * _PAIR_S[context.device]
    return (_request(context, (*collective_cases(sizes, ranks), *pairs), budget_s),)


def pairs_request(context: BenchContext, hosts: tuple[str, ...]) -> BenchRequest:
    """Return the request for all pairs of some hosts, which the search for a slow host uses."""
    pairs = pair_cases(len(hosts), context.device, most_rounds=len(hosts))
    context = msgspec.structs.replace(context, hosts=hosts)
    return _request(context, pairs, max(1, len(pairs)) * _PAIR_S[context.device])


def _request(context: BenchContext, cases: tuple[Case, ...], budget_s: float) -> BenchRequest:
    hosts = context.hosts
    return BenchRequest(
        bench_id="across-nodes",
        title=f"{len(hosts)} hosts ({', '.join(hosts[:3])}{', ...' if len(hosts) > 3 else ''})",
        device=context.device,
        backend=context.backend,
        ranks=len(hosts) * context.ranks_per_node,
        threads_per_rank=context.threads_per_rank,
        budget_s=budget_s,
        cases=cases,
        hosts=hosts,
        spread_by=context.spread_by,
    )


def pair_cases(hosts: int, device: str, *, most_rounds: int = _MOST_ROUNDS) -> tuple[Case, ...]:
    """Return one case per distance in the circle."""
    return tuple(
        {"distance": distance, "bytes": _PAIR_BYTES[device]}
        for distance in range(1, min(hosts, most_rounds + 1))
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rates of collectives, pairs and hosts, if all ranks answered."""
    collectives = collective_measurements(request, lines_by_rank, {"nodes": len(request.hosts)})
    pairs = pair_measurements(request, lines_by_rank)
    return (collectives + pairs + _host_measurements(pairs)) or failure_of(request, lines_by_rank)


def host_names(request: BenchRequest, lines_by_rank: LinesByRank) -> dict[int, str]:
    """Return the host of each rank as the rank reported it: a scheduler may reorder the hosts."""
    starts = {rank: start_of(lines) for rank, lines in lines_by_rank.items()}
    return {
        rank: str(start.conditions.get("hostname") or request.hosts[rank // request.ranks_per_node])
        for rank, start in starts.items()
        if start is not None
    }


def pair_measurements(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...]:
    """Return one measurement per direction of each pair.

    A sample has the duration of the slowest transfer between a rank of one host and a rank of the other. With
    gloo, a transfer has the receiver's duration. NCCL's kernel on a rank also waits for the simultaneous
    transfer to a third rank, so for NCCL the shorter duration of both ends is used.
    """
    names = host_names(request, lines_by_rank)
    start = start_of(lines_by_rank.get(0, ()))
    if start is None or len(names) < request.ranks:
        return ()
    answers = {rank: tuple(samples_of(request, lines)) for rank, lines in lines_by_rank.items()}
    width, measurements = request.ranks_per_node, []
    for case in request.cases:
        times = {
            rank: sample.durations_s
            for rank, samples in answers.items()
            for sample in samples
            if sample.case == case
        }
        if "distance" not in case or len(times) < request.ranks:
            continue
        size_bytes = float(case["bytes"]) * width
        parameters = {"bytes": size_bytes, "nodes": len(request.hosts), "backend": request.backend}
        for host in range(len(request.hosts)):
            other = (host + int(case["distance"])) % len(request.hosts)
            rank_durations_s = [
                _pair_durations_s(request, times[host * width + local], times[other * width + local])
                for local in range(width)
            ]
            durations_s = tuple(map(max, zip(*rank_durations_s, strict=False)))
            subject = f"{names[host * width]}->{names[other * width]}"
            answer = CaseAnswer(request, start, subject, SampleLine(case=case, durations_s=durations_s))
            measurements.append(
                answer.measurement(PAIR_METRIC, "byte/s", answer.rates(size_bytes), parameters)
            )
    return tuple(measurements)


def _pair_durations_s(
    request: BenchRequest, sender_s: tuple[float, ...], receiver_s: tuple[float, ...]
) -> tuple[float, ...]:
    if request.backend == "gloo":
        return receiver_s
    return tuple(map(min, zip(sender_s, receiver_s, strict=False)))


def ends_of_pair(pair: Measurement) -> tuple[str, str]:
    """Return the sending and the receiving host."""
    sender, _, receiver = pair.subject.partition("->")
    return sender, receiver


def _host_measurements(pairs: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    measurements = []
    for host in dict.fromkeys(host for pair in pairs for host in ends_of_pair(pair)):
        pairs_of_host = [pair for pair in pairs if host in ends_of_pair(pair)]
        measurements.append(
            msgspec.structs.replace(
                pairs_of_host[0],
                subject=host,
                metric="host_bandwidth_bytes_per_s",
                samples=tuple(
                    quantile(rates_of_all, 0.5)
                    for rates_of_all in zip(*(pair.samples for pair in pairs_of_host), strict=False)
                ),
            )
        )
    return tuple(measurements)
