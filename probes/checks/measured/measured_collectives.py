"""Compare the collectives of this machine with references, and find a slow connection layer or pair of GPUs.

The largest rate over all sizes is compared with the reference rate of the same collective for the same number
of GPUs and message size. If NCCL used a ring although the NVSwitch could reduce (NVLS), the machine is sound
but slower than possible: this is a warning. Source: `probes/data/bench_references.toml`; NVIDIA/nccl-tests,
doc/PERFORMANCE.md; stas00/ml-engineering (NVLS and ring by number of GPUs);
awslabs/awsome-distributed-training (one layer at a time).
"""

from collections.abc import Iterator, Sequence

from probes.base.grouping import grouped
from probes.base.record import items_of
from probes.base.units import gb_per_s, gib, percent
from probes.compare.comparing import Beside, beside_references
from probes.compare.measured_findings import (
    Aspect,
    by_subject,
    failures,
    judge_references,
    limit_ref,
    observed,
)
from probes.compare.reference_rows import load_references
from probes.compare.reference_values import status_of
from probes.compare.slow_causes import Cause, forbids_nvls, of_collective, of_network, of_peer_copy
from probes.compare.slow_parts import (
    LAYERS,
    Layer,
    Pair,
    SlowPart,
    collapse_of,
    pair_of,
    slow_layer,
    slow_parts,
    words_of_part,
)
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.measurement_evidence import gpus_in, measurements_of, refs_of
from probes.judging.reporting import HOST

COLLECTIVES = Judge(
    check_id="measured-collectives", why="Training waits for its collectives: their rate limits every step."
)
ISOLATION = Judge(
    check_id="measured-isolation",
    why="A slow connection layer between ranks is not noticed until a job uses more ranks.",
)
PAIRS = Judge(
    check_id="measured-pairs", why="A slow pair slows every ring that passes through it, and thus all ranks."
)

_BUS = "bus_bandwidth_bytes_per_s"
_SLOW = Remedy(
    text="Look at NVLinks, PCIe links and clocks, then measure with NCCL_DEBUG=INFO and see which path NCCL "
    "took.",
    command="NCCL_DEBUG=INFO rigtune bench --only collectives --only isolation --suite full",
)
_RING = Remedy(
    text="See in NCCL's log whether NVLS is used; it needs the Fabric Manager, NCCL 2.18 or newer, and no "
    "variable that disables it.",
    command="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NVLS rigtune bench --only collectives",
)
_NAMES: dict[Layer, str] = {"all": HOST, "nvlink": "NVLink", "host-memory": "host memory", "nic": "NICs"}
_REMEDIES: dict[Layer, Remedy] = {
    "all": _SLOW,
    "nvlink": Remedy(
        text="Look at the NVLinks' state, speed and errors, and at the fabric.",
        command="nvidia-smi nvlink -s",
    ),
    "host-memory": Remedy(
        text="Look at NUMA binding, at the governor of the CPUs and at memory bandwidth.",
        command="rigtune bench --only host-memory",
    ),
    "nic": Remedy(
        text="Look at the ports' rate, state and errors, and check which NIC belongs to which GPU.",
        command="ibstat",
    ),
}
_BUSY_RANK = Remedy(text="See which CPUs this rank runs on, and who else uses them.", command="top")


def measured_collectives(evidence: Evidence) -> Iterator[Finding]:
    yield from _collapses(evidence)
    aspect = Aspect(
        judge=COLLECTIVES,
        bench_ids=("collectives",),
        metric=_BUS,
        what="collective",
        good="collectives are as fast as on equal machines",
        slow="collectives are slow",
        remedy=_SLOW,
        cause=lambda all_facts, _: of_collective(all_facts),
        parts=lambda short, _: by_subject(
            beside for beside in short if not beside.uses_fallback or beside.status is not Status.WARN
        ),
    )
    yield from judge_references(aspect, evidence)
    ringed = [
        beside
        for beside in beside_references(evidence)
        if beside.measured.bench_id == "collectives"
        and beside.uses_fallback
        and beside.status is Status.WARN
        and beside.share > 0
    ]
    if ringed:
        yield _around_a_ring(evidence, ringed)


def _around_a_ring(evidence: Evidence, ringed: Sequence[Beside]) -> Finding:
    """Warn about collectives that are about as fast as a ring, or a little slower, although the switch could
    reduce.
    """
    worst = min(ringed, key=lambda beside: beside.measured.median / beside.reference.value)
    variable = forbids_nvls(evidence.facts)
    why = f": {variable} forbids it" if variable else ""
    is_full = worst.share >= evidence.thresholds.measured_warn_fraction.value
    statement = (
        ("only as fast as a ring, although the switch could reduce faster")
        if is_full
        else "slower than a ring"
    )
    return COLLECTIVES.warned(
        worst.measured.subject,
        f"all-reduce is {statement} (apparently without NVLS){why}",
        expected=f"about {gb_per_s(worst.reference.value)} ({worst.reference.words})",
        observed=observed([worst.measured]),
        remedy=Remedy(text=f"Unset {variable.partition('=')[0]}, and measure again.") if variable else _RING,
        evidence=(*refs_of([worst.measured]), worst.reference.ref, limit_ref(evidence, fails=False)),
    )


def _collapses(evidence: Evidence) -> Iterator[Finding]:
    """Yield findings on larger messages whose rate is much lower than that of smaller ones.

    Only NCCL is judged, because caches cause the same drop on CPUs.
    """
    curves = grouped(
        ((point.subject, str(point.parameters.get("collective"))), point)
        for point in measurements_of(evidence, ("collectives", "across-nodes"), _BUS)
        if point.parameters.get("backend") == "nccl" and isinstance(point.parameters.get("bytes"), int)
    )
    for (subject, collective), points in curves.items():
        collapse = collapse_of([(int(point.parameters["bytes"]), point.median, point) for point in points])
        if collapse is None:
            continue
        yield COLLECTIVES.problem(
            subject,
            f"{collective.replace('_', '-')} collapses with growing size",
            fails=collapse.fails,
            expected=f"at least the rate with {gib(int(collapse.peak.parameters['bytes']))} "
            f"({gb_per_s(collapse.peak.median)})",
            observed=f"{gb_per_s(collapse.low.median)} with {gib(int(collapse.low.parameters['bytes']))}",
            remedy=_SLOW,
            evidence=(*refs_of([collapse.peak, collapse.low]), load_references().collapse.ref),
        )


def measured_isolation(evidence: Evidence) -> Iterator[Finding]:
    yield from failures(ISOLATION, evidence, ("isolation",))
    measured = measurements_of(evidence, ("isolation",), _BUS)
    if not measured:
        yield ISOLATION.skipped(HOST, "the connection layers were not measured separately")
        return
    by_layer = {
        layer: entry
        for entry in beside_references(evidence)
        for layer in LAYERS
        if entry.measured in measured and entry.measured.parameters.get("layers") == layer
    }
    shares = {layer: entry.measured.median for layer, entry in by_layer.items()}
    references = {layer: entry.compared.value for layer, entry in by_layer.items()}
    limits = evidence.thresholds
    verdict = slow_layer(shares, references, limits.measured_warn_fraction.value)
    for layer in verdict.slow:
        beside = by_layer[layer]
        cause = of_network(evidence) if layer == "nic" else of_collective(evidence)
        fails = status_of(beside.share, limits) is Status.FAIL and beside.compared.firm
        yield ISOLATION.problem(
            _NAMES[layer],
            f"{verdict.because}{f': {cause.words}' if cause else ''}",
            fails=fails,
            expected=f"about {gb_per_s(beside.compared.value)} ({beside.compared.words})",
            observed=observed([beside.measured]),
            remedy=cause.remedy if cause else _REMEDIES[layer],
            evidence=(*refs_of([beside.measured]), beside.compared.ref, limit_ref(evidence, fails=fails)),
        )
    if by_layer and not verdict.slow:
        normal = [entry.measured for entry in by_layer.values()]
        yield ISOLATION.passed(HOST, verdict.because, observed=observed(normal), evidence=refs_of(normal))
    elif not by_layer:
        yield ISOLATION.skipped(
            HOST,
            f"no connection layer has a reference here: {observed(measured)}",
            evidence=refs_of(measured),
        )


def measured_pairs(evidence: Evidence) -> Iterator[Finding]:
    """Compare pairs of GPUs, or of ranks, that have the same kind of links.

    If all pairs of a GPU or rank are slow, this member is reported instead of its pairs.
    """
    yield from failures(PAIRS, evidence, ("pairs",))
    measured = measurements_of(evidence, ("pairs",), "pair_bandwidth_bytes_per_s")
    if not measured:
        yield PAIRS.skipped(HOST, "no pairs were measured")
        return
    judged: list[Measurement] = []
    slow: dict[str | Pair, SlowPart] = {}
    # A pair or GPU can be slow in several groups (sizes, operations); the worst share is reported.
    for rates, members in _alike(evidence, measured):
        if len(rates) < evidence.thresholds.peers_compared_minimum.value:
            continue
        judged += members
        for part in slow_parts(rates, least_difference=1 - evidence.thresholds.measured_warn_fraction.value):
            if part.part not in slow or part.share < slow[part.part].share:
                slow[part.part] = part
    for part in slow.values():
        yield _slow_part(evidence, part, judged)
    if judged and not slow:
        yield PAIRS.passed(
            HOST,
            "pairs with the same links are about equally fast",
            observed=observed(judged),
            evidence=refs_of(judged),
        )
    elif not judged:
        yield PAIRS.skipped(
            HOST, f"too few pairs to compare: {observed(measured)}", evidence=refs_of(measured)
        )


def _alike(
    evidence: Evidence, measured: Sequence[Measurement]
) -> Iterator[tuple[dict[Pair, float], list[Measurement]]]:
    """Yield groups of pairs with the same parameters and links.

    The slower direction of a pair determines its rate.
    """
    links = items_of(evidence.facts.links)
    kinds = {frozenset((link.a, link.b)): (str(link.kind), link.nvlink_count) for link in links}
    groups: dict[object, list[Measurement]] = {}
    for measurement in measured:
        pair = pair_of(measurement.subject)
        if pair is not None:
            groups.setdefault((tuple(sorted(measurement.parameters.items())), kinds.get(pair)), []).append(
                measurement
            )
    for members in groups.values():
        rates: dict[Pair, float] = {}
        for measurement in members:
            pair = pair_of(measurement.subject) or frozenset()
            rates[pair] = min(measurement.median, rates.get(pair, measurement.median))
        yield rates, members


def _slow_part(evidence: Evidence, slow: SlowPart, judged: Sequence[Measurement]) -> Finding:
    name = words_of_part(slow.part)
    gpus = gpus_in(name)
    cause: Cause | None = of_peer_copy(evidence, gpus) if gpus else None
    fails = slow.share < evidence.thresholds.measured_fail_fraction.value
    statement = (
        "slow with every other GPU"
        if isinstance(slow.part, str)
        else "slower than other pairs with the same links"
    )
    statement += f", {percent(round(slow.share, 2))} of the usual rate"
    measurements = [
        measurement
        for measurement in judged
        if (pair := pair_of(measurement.subject)) and (slow.part in pair or slow.part == pair)
    ]
    return PAIRS.problem(
        name,
        f"{statement}{f': {cause.words}' if cause else ''}",
        fails=fails,
        expected=f"about {gb_per_s(slow.usual)}, like the others",
        observed=gb_per_s(slow.value),
        remedy=cause.remedy if cause else _REMEDIES["nvlink"] if gpus else _BUSY_RANK,
        evidence=(*refs_of(measurements), limit_ref(evidence, fails=fails)),
    )
