"""Compare devices of the same kind, or ranks with the same work, with each other.

Devices of the same kind need no reference: each of them should reach their median, on any hardware. Source:
NVIDIA/nvidia-resiliency-ext (relative score against the median); microsoft/superbenchmark and ROCm/cvs
(outliers of a fleet). The median and the median absolute deviation are used, because a few bad
members do not move them.
"""

from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.statistics import outliers, quantile
from probes.base.units import percent, quantity
from probes.compare.comparing import Peers, beside_peers, is_sound, share_of
from probes.compare.measured_findings import failures, limit_ref, too_uncertain
from probes.compare.reference_values import gpu_named
from probes.compare.slow_causes import Cause, of_compute, of_host_copy
from probes.compare.slow_parts import pair_of
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.measurement_evidence import measurements_of, refs_of, words_of
from probes.judging.reporting import HOST, fold_names

DEVICES = Judge(
    check_id="equal-devices",
    why="In data-parallel training all ranks wait for the slowest device in every step.",
)
RANKS = Judge(
    check_id="equal-ranks",
    why="A collective ends when its last rank arrives: all ranks wait for a late rank.",
)

_ALONE = (
    "gemm",
    "attention",
    "memory-copy",
    "launch-latency",
    "host-device",
    "sustained",
    "host-memory",
    "cpu-gemm",
)
"""Benchmarks in which each device works independently of the others."""
_STRAGGLER = Remedy(
    text="See which CPUs this rank runs on and who else uses them; bind ranks to cores, and move other work "
    "away.",
    command="top",
)
_DEVICE = Remedy(
    text="Move it to another slot, or compare it on a quiet machine; if only this device stays slow, have it "
    "replaced.",
    command="nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE",
)
_MOST_SHOWN = 3


def equal_devices(evidence: Evidence) -> Iterator[Finding]:
    yield from failures(DEVICES, evidence, ("gemm", "memory-copy"))
    every = [peers for peers in beside_peers(evidence) if _are_devices(peers)]
    if not every:
        yield DEVICES.skipped(HOST, "there are no equal devices to compare")
        return
    groups = [peers for peers in every if len(peers.uncertain) < len(peers.members)]
    if not groups:
        yield too_uncertain(DEVICES, [member for peers in every for member in peers.members])
        return
    slow = grouped(
        (member.subject, (peers, member))
        for peers in groups
        for member in peers.members
        if member.subject in peers.slow
    )
    for subject, slow_cases in slow.items():
        yield _odd_one(evidence, subject, slow_cases)
    unlike = [
        peers
        for peers in groups
        if len(peers.members) == 2 and not peers.uncertain and _differ(evidence, peers)
    ]
    if unlike and not slow:
        yield _two_that_differ(evidence, unlike)
    elif not slow:
        names = fold_names(sorted({member.subject for peers in groups for member in peers.members}))
        benches = ", ".join(dict.fromkeys(peers.members[0].bench_id for peers in groups))
        yield DEVICES.passed(
            names, "equal devices are equally fast", observed=benches, evidence=refs_of(groups[0].members)
        )


def _are_devices(peers: Peers) -> bool:
    first = peers.members[0]
    return first.bench_id in _ALONE and first.unit != "byte" and pair_of(first.subject) is None


def _differ(evidence: Evidence, peers: Peers) -> bool:
    if peers.members[0].subject.startswith("CPU"):
        # The host's scheduler decides how fast two ranks on its CPUs are, and a lack of CPUs slows both of
        # them.
        return False
    first, second = (member.median for member in peers.members)
    return min(first, second) < evidence.thresholds.measured_warn_fraction.value * max(first, second)


def _odd_one(evidence: Evidence, subject: str, slow_cases: list[tuple[Peers, Measurement]]) -> Finding:
    """Report a device that is slower than devices of its kind, in one or several benchmarks."""
    slow_cases = sorted(slow_cases, key=lambda pair: pair[0].share(pair[1]))
    peers, worst = slow_cases[0]
    gpu = gpu_named(evidence, subject)
    explains = of_host_copy if worst.bench_id == "host-device" else of_compute
    cause: Cause | None = explains(evidence, subject) if gpu is not None else None
    benches = ", ".join(dict.fromkeys(member.bench_id for _, member in slow_cases))
    # Ranks on CPUs never cause a FAIL, because the host's scheduler also influences their speed.
    fails = gpu is not None and peers.share(worst) < evidence.thresholds.measured_fail_fraction.value
    shown = [
        f"{member.bench_id} {words_of(member)} {quantity(member.median, member.unit)} "
        f"({percent(round(group.share(member), 2))})"
        for group, member in slow_cases[:_MOST_SHOWN]
    ]
    more = f"; and {len(slow_cases) - _MOST_SHOWN} more" if len(slow_cases) > _MOST_SHOWN else ""
    return DEVICES.problem(
        subject,
        f"slower than its equals in {benches}, down to {percent(round(peers.share(worst), 2))} of their "
        f"median{f': {cause.words}' if cause else ''}",
        fails=fails,
        expected=f"about {quantity(peers.usual, worst.unit)}, the median of {len(peers.members)} "
        f"({worst.bench_id})",
        observed="; ".join(shown) + more,
        remedy=cause.remedy if cause else _DEVICE if gpu is not None else _STRAGGLER,
        evidence=(
            *refs_of(member for _, member in slow_cases),
            evidence.thresholds.peer_difference_fraction.ref,
        ),
    )


def _two_that_differ(evidence: Evidence, unlike: list[Peers]) -> Finding:
    """Report that two devices differ. Without a reference, it is unknown which of the two is at fault."""
    peers = min(unlike, key=lambda group: min(group.share(member) for member in group.members))
    first, second = sorted(peers.members, key=lambda member: member.subject)
    slower, faster = sorted(
        (first, second), key=lambda member: share_of(member.median, peers.usual, peers.side)
    )
    share = share_of(slower.median, faster.median, peers.side)
    return DEVICES.warned(
        f"{first.subject}, {second.subject}",
        f"{slower.subject} reaches {percent(round(share, 2))} of {faster.subject}; without a "
        "reference it is unknown which of the two is at fault",
        expected=f"{slower.bench_id} alike on both",
        observed=f"{first.subject} {quantity(first.median, first.unit)}, {second.subject} "
        f"{quantity(second.median, second.unit)}",
        remedy=_DEVICE if gpu_named(evidence, first.subject) is not None else _STRAGGLER,
        evidence=(*refs_of(peers.members), limit_ref(evidence, fails=False)),
    )


def equal_ranks(evidence: Evidence) -> Iterator[Finding]:
    """Compare ranks that do the same work by themselves: the others wait for the slowest."""
    yield from failures(RANKS, evidence, ("collectives",))
    own_work = measurements_of(evidence, ("collectives", "across-nodes"), "rank_compute_s")
    times = {rank.subject: rank for rank in own_work if is_sound(rank)}
    if len(times) < 2:
        yield RANKS.skipped(HOST, "the ranks' own work was not measured with several ranks")
        return
    fastest = min(times.values(), key=lambda rank: rank.median)
    limits = evidence.thresholds
    medians = {subject: rank.median for subject, rank in times.items()}
    least = 1 / limits.measured_warn_fraction.value - 1
    late = [times[rank.name] for rank in outliers(medians, worse="high", least_difference=least)]
    if len(times) == 2:
        # Outliers need three values. The work is the same, so the slower of two ranks makes the other wait.
        late = [
            rank
            for rank in times.values()
            if fastest.median < limits.measured_fail_fraction.value * rank.median
        ]
    usual = fastest.median if len(times) == 2 else quantile(list(medians.values()), 0.5)
    for rank in late:
        gpu = gpu_named(evidence, rank.subject)
        cause = of_compute(evidence, rank.subject) if gpu is not None else None
        cpus = f" on CPUs {rank.conditions['cpus']}" if "cpus" in rank.conditions else ""
        yield RANKS.warned(
            rank.subject,
            f"takes {rank.median / usual:.2g} times as long as the others for the same "
            f"work{f': {cause.words}' if cause else ''}",
            expected=f"about {quantity(usual, 's')}, like the others",
            observed=f"{quantity(rank.median, 's')}{cpus}",
            remedy=cause.remedy if cause else _STRAGGLER,
            evidence=(*refs_of([rank]), limit_ref(evidence, fails=False)),
        )
    if not late:
        low, high = (
            quantity(value, "s") for value in (fastest.median, max(rank.median for rank in times.values()))
        )
        yield RANKS.passed(
            fold_names(sorted(times)),
            "all ranks work at about the same speed",
            observed=f"{low} to {high}",
            evidence=refs_of(times.values()),
        )
