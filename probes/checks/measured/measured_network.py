"""Compare hosts, and links between hosts, with each other.

A host is judged by its best link: a good host has at least one fast link to another good host, a bad host has
no fast link. Collectives across hosts are also compared with the line rate of the training ports. Source:
oracle-quickstart/oci-hpc and GoogleCloudPlatform/cluster-health-scanner (pairs, confirmed with a known-good
partner); coreweave/nccl-tests and awslabs/awsome-distributed-training (share of line rate).
"""

import functools
from collections.abc import Iterator, Sequence

from probes.base.statistics import outliers, quantile
from probes.base.units import gb_per_s, percent
from probes.compare.measured_findings import Aspect, judge_references, limit_ref, observed, on_measured
from probes.compare.slow_causes import of_network
from probes.compare.slow_parts import Pair, SlowPart, pair_of, slow_parts, words_of_part
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.measurement_evidence import refs_of
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="measured-network",
    why="A collective across hosts is as slow as the slowest host or link among them.",
)

_LINKS = ("tcp_bandwidth_bytes_per_s", "pair_bandwidth_bytes_per_s")
_HOST_NAMES = frozenset({"from", "to", "sender", "receiver", "hosts"})
"""Parameters whose values name the hosts."""
_FEWEST_COMPARED = 3
"""Fewest hosts among which a slow host or link can be identified."""
_HOST_REMEDY = Remedy(
    text="Look at this host's interface: speed, errors, cable, and limits that somebody set (tc).",
    command="ip -s link && tc qdisc show",
)
_LINK_REMEDY = Remedy(
    text="Look at the switch ports and the path between the two; compare both directions.",
    command="ip -s link && tc qdisc show",
)
_COLLECTIVE = Remedy(
    text="Look at the ports' rate and errors, and at which of them NCCL uses (NCCL_DEBUG=INFO).",
    command="ibstat",
)


@on_measured(
    JUDGE, ("network",), ("network", "across-nodes"), *_LINKS, absent="no links between hosts were measured"
)
def measured_network(measured: tuple[Measurement, ...], evidence: Evidence) -> Iterator[Finding]:
    slow_members: dict[str | Pair, tuple[SlowPart, list[Measurement]]] = {}
    judged: list[Measurement] = []
    for group in _alike(measured):
        judged += group if len(_members(group)) >= _FEWEST_COMPARED else []
        for part in _slow(evidence, group):
            if part.part not in slow_members or part.share < slow_members[part.part][0].share:
                slow_members[part.part] = (part, group)
    for part, group in slow_members.values():
        yield _finding(evidence, part, group)
    if not judged:
        yield JUDGE.skipped(
            HOST,
            f"there are too few hosts to compare: {observed(measured)}",
            evidence=refs_of(measured),
        )
    elif not slow_members:
        yield JUDGE.passed(
            HOST,
            "all hosts and links are about equally fast",
            observed=observed(measured),
            evidence=refs_of(measured),
        )


def _alike(measured: Sequence[Measurement]) -> list[list[Measurement]]:
    """Group measurements whose parameters are equal, apart from the names of the hosts."""
    groups: dict[object, list[Measurement]] = {}
    for measurement in measured:
        parameters = measurement.parameters
        kind = tuple(sorted((name, parameters[name]) for name in parameters.keys() - _HOST_NAMES))
        groups.setdefault((measurement.bench_id, measurement.metric, kind), []).append(measurement)
    return list(groups.values())


def _members(group: Sequence[Measurement]) -> frozenset[str]:
    """Return the hosts in a group of measurements of hosts or pairs."""
    return frozenset().union(
        *(pair_of(measurement.subject) or {measurement.subject} for measurement in group)
    )


def _slow(evidence: Evidence, group: Sequence[Measurement]) -> Iterator[SlowPart]:
    """Yield slow hosts and pairs: the slower direction gives a pair its rate, and outliers are slow."""
    least = 1 - evidence.thresholds.measured_warn_fraction.value
    pairs: dict[Pair, float] = {}
    hosts: dict[str, float] = {}
    for measurement in group:
        pair = pair_of(measurement.subject)
        if pair is None:
            hosts[measurement.subject] = measurement.median
        else:
            pairs[pair] = min(measurement.median, pairs.get(pair, measurement.median))
    yield from slow_parts(pairs, least_difference=least)
    for host in outliers(hosts, worse="low", least_difference=least):
        yield SlowPart(host.name, host.value, quantile(list(hosts.values()), 0.5))


def _finding(evidence: Evidence, slow: SlowPart, group: Sequence[Measurement]) -> Finding:
    measurements = [measurement for measurement in group if _concerns(slow.part, measurement)]
    fails = slow.share < evidence.thresholds.measured_fail_fraction.value
    limit = evidence.thresholds.measured_warn_fraction.value
    links = ", ".join(
        f"{measurement.subject} {gb_per_s(measurement.median)}"
        for measurement in sorted(measurements, key=lambda measurement: measurement.median)[:4]
    )
    statement = (
        _direction(slow, measurements, limit)
        if isinstance(slow.part, str)
        else "this link is slow, and both hosts have faster links"
    )
    return JUDGE.problem(
        words_of_part(slow.part),
        f"{statement}: {percent(round(slow.share, 2))} of the others",
        fails=fails,
        expected=f"about {gb_per_s(slow.usual)}, like the others",
        observed=links or gb_per_s(slow.value),
        remedy=_HOST_REMEDY if isinstance(slow.part, str) else _LINK_REMEDY,
        evidence=(*refs_of(measurements), limit_ref(evidence, fails=fails)),
    )


def _direction(slow: SlowPart, measurements: Sequence[Measurement], limit: float) -> str:
    """Return a statement about whether a host is slow when it sends, when it receives, or in both cases."""
    sends = [
        measurement.median for measurement in measurements if measurement.subject.startswith(f"{slow.part}->")
    ]
    receives = [
        measurement.median for measurement in measurements if measurement.subject.endswith(f"->{slow.part}")
    ]
    is_slow = [bool(rates) and max(rates) < limit * slow.usual for rates in (sends, receives)]
    if is_slow == [True, False]:
        return "this host is slow when it sends, to any host"
    if is_slow == [False, True]:
        return "this host is slow when it receives, from any host"
    return "every link of this host is slow"


def _concerns(part: str | Pair, measurement: Measurement) -> bool:
    pair = pair_of(measurement.subject)
    return part in (pair, measurement.subject) or (pair is not None and part in pair)


measured_across_nodes = functools.partial(
    judge_references,
    Aspect(
        judge=Judge(
            check_id="measured-across-nodes",
            why="Gradients cross these links in every step of a job on several machines.",
        ),
        bench_ids=("across-nodes",),
        metric="bus_bandwidth_bytes_per_s",
        what="collective across hosts",
        good="collectives across hosts are as fast as the ports",
        slow="collectives across hosts are slow",
        remedy=_COLLECTIVE,
        cause=lambda all_facts, _: of_network(all_facts),
    ),
)
