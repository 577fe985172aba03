"""Compare measurements with earlier measurements, and check the conditions of measurement.

Two measurements are compared only if all parameters are equal. A difference counts if it is more than a
twentieth and not due to chance; changes in between (torch, driver, NCCL) are named. Numbers that were
measured while others used the machine cause a warning at most. Source: probes/base/statistics.py
(Mann-Whitney U, bootstrap); NVIDIA/nvidia-resiliency-ext (a device against its own best).
"""

from collections.abc import Iterator, Sequence

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED
from probes.base.units import percent, plural, quantity
from probes.compare.comparing import Earlier, beside_baselines, judged_cases, kind_of
from probes.compare.measured_findings import failed_benchmark, too_uncertain
from probes.compare.slow_causes import changed_since
from probes.facts.measurements import BUSY_SHARE, Measurement, others_share
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.measurement_evidence import refs_of, words_of
from probes.judging.reporting import HOST, fold_names

BASELINE = Judge(
    check_id="measured-baseline",
    why="A machine that became slower without a change of hardware has a fault or a worse setting.",
)
CONDITIONS = Judge(
    check_id="measured-conditions",
    why="Numbers that are measured while others use the machine are too low.",
)

_KINDS = {"previous": "the run before", "pinned": "the pinned run"}
_MOST_SHOWN = 3
_REMEDY = Remedy(
    text="Measure again on a quiet machine. If it is still slower, undo the change named here, or look at "
    "clocks, links and errors. If the change was intended, pin the new run.",
    command="rigtune bench --pin",
)
_QUIET = Remedy(text="End other programs and measure again, or measure at another time.", command="top")


def measured_baseline(evidence: Evidence) -> Iterator[Finding]:
    compared = list(beside_baselines(evidence))
    kept = {case.bench_id for baseline in evidence.baselines for case in baseline.measured.measurements}
    for failure in evidence.bench_failures:
        if failure.bench_id in kept:
            yield failed_benchmark(BASELINE, failure)
    if not compared:
        yield BASELINE.skipped(HOST, "no earlier run has a measurement with the same parameters")
        return
    judged = list(judged_cases(compared))
    slower = [case for case in judged if case.status in (Status.FAIL, Status.WARN)]
    groups: dict[tuple[str, str, str], list[Earlier]] = {}
    for case in slower:
        measured = case.measured
        groups.setdefault((case.baseline.kind, measured.bench_id, kind_of(measured.subject)), []).append(case)
    for slow_cases in groups.values():
        yield _slower(evidence, slow_cases)
    for kind in _KINDS:
        of_kind = [case for case in judged if case.baseline.kind == kind]
        clear = [case for case in of_kind if case.status is Status.PASS]
        if clear and not any(case.baseline.kind == kind for case in slower):
            yield _as_fast(evidence, kind, clear)
        elif of_kind and not clear and not slower:
            yield too_uncertain(BASELINE, [case.measured for case in of_kind])


def _slower(evidence: Evidence, cases: Sequence[Earlier]) -> Finding:
    worst = min(cases, key=lambda case: case.share)
    measured, before = worst.measured, worst.before
    changes = changed_since(before, measured)
    busy = [when for when, case in (("now", measured), ("then", before)) if case.was_disturbed]
    fails = any(case.status is Status.FAIL for case in cases)
    interval = worst.interval
    sure = f" ({percent(round(interval[0], 2))} to {percent(round(interval[1], 2))})" if interval else ""
    why = f"; changed: {', '.join(changes)}" if changes else ""
    doubt = f"; others used the machine {' and '.join(busy)}" if busy else ""
    limits, run = evidence.thresholds, _KINDS[worst.baseline.kind]
    names = fold_names(sorted({case.measured.subject for case in cases}))
    more = f"; also slower: {plural(len(cases) - 1, 'other case')}" if len(cases) > 1 else ""
    return BASELINE.problem(
        names,
        f"{measured.bench_id} ({words_of(measured)}) reaches {percent(round(worst.share, 2))}{sure} of "
        f"{run}{more}{why}{doubt}",
        fails=fails,
        expected=f"{quantity(before.median, before.unit)}, as in {run} of {worst.baseline.measured.started}",
        observed=quantity(measured.median, measured.unit),
        remedy=_REMEDY,
        evidence=(
            *refs_of(case.measured for case in cases),
            (limits.measured_fail_fraction if fails else limits.earlier_difference_fraction).ref,
        ),
    )


def _as_fast(evidence: Evidence, kind: str, judged: Sequence[Earlier]) -> Finding:
    """Return the PASS for the case that nothing is slower; it also names what became faster."""
    least = evidence.thresholds.earlier_difference_fraction.value
    faster = [
        case
        for case in judged
        if case.change is not None and case.change.is_significant and case.share > 1 + least
    ]
    best = sorted(faster, key=lambda case: -case.share)[:_MOST_SHOWN]
    shown = "; ".join(
        f"{case.measured.subject} {case.measured.bench_id} {words_of(case.measured)} "
        f"{percent(round(case.share, 2))}"
        for case in best
    )
    more = f" and {len(faster) - len(best)} more" if len(faster) > len(best) else ""
    return BASELINE.passed(
        HOST,
        f"as fast as in {_KINDS[kind]}"
        + (f", and faster in {len(faster)} of {plural(len(judged), 'case')}" if faster else ""),
        observed=f"{shown}{more}" if shown else plural(len(judged), "case"),
        evidence=refs_of(case.measured for case in best or judged),
    )


def measured_conditions(evidence: Evidence) -> Iterator[Finding]:
    measured = [measurement for measurement in evidence.measurements if measurement.samples]
    if not measured:
        yield CONDITIONS.skipped(HOST, "nothing was measured")
        return
    disturbances = [*_busy(measured), *_versions(measured), *_clocks(evidence, measured)]
    yield from disturbances
    observed_load = [measurement for measurement in measured if "host_busy" in measurement.conditions]
    if not observed_load:
        yield CONDITIONS.undetermined(
            HOST, NOT_RECORDED, what="the use of the machine by others during the measurement"
        )
    elif not disturbances:
        share = percent(round(others_share(observed_load), 3))
        yield CONDITIONS.passed(
            HOST,
            "the machine was quiet while it was measured",
            observed=f"others took {share} of the CPUs at most",
            evidence=refs_of(observed_load),
        )


def _strangers(measured: Sequence[Measurement]) -> Iterator[Finding]:
    """Yield one finding for each GPU that others used, and for each list of their processes."""
    shared = grouped(
        (sharing, measurement)
        for measurement in measured
        for sharing in str(measurement.conditions.get("gpu_shared_with", "")).split("; ")
        if sharing
    )
    for sharing, affected in shared.items():
        names, _, processes = sharing.rpartition(": ")
        benches = ", ".join(dict.fromkeys(measurement.bench_id for measurement in affected))
        yield CONDITIONS.warned(
            names or HOST,
            f"{processes} also used this GPU during {benches}: these numbers may be lower than on a quiet "
            "machine",
            expected="no other user",
            observed=processes,
            remedy=Remedy(
                text="Wait until these processes end, or end them, and measure again.", command="nvidia-smi"
            ),
            evidence=refs_of(affected),
        )


def _busy(measured: Sequence[Measurement]) -> Iterator[Finding]:
    """Yield findings if others used the GPUs or the CPUs during the measurement."""
    yield from _strangers(measured)
    busy = [
        measurement
        for measurement in measured
        if measurement.was_disturbed
        and ("gpu_shared_with" not in measurement.conditions or others_share([measurement]) > BUSY_SHARE)
    ]
    if not busy:
        return
    benches = ", ".join(dict.fromkeys(measurement.bench_id for measurement in busy))
    share = others_share(busy)
    yield CONDITIONS.warned(
        HOST,
        f"others used the machine during {benches}: these numbers may be lower than on a quiet machine",
        expected="no other user",
        observed=f"others took up to {percent(round(share, 2))} of the CPUs"
        if share
        else "the host was busy",
        remedy=_QUIET,
        evidence=refs_of(busy),
    )


def _clocks(evidence: Evidence, measured: Sequence[Measurement]) -> Iterator[Finding]:
    """Yield GPUs whose clocks were held down by heat or by the hardware during the measurement."""
    rows = {row.name: row for row in evidence.thresholds.throttle_reasons if row.severe}
    by_reason = grouped(
        (reason, measurement)
        for measurement in measured
        for reason in str(measurement.conditions.get("throttle_reasons", "")).split(", ")
        if reason in rows
    )
    for reason, affected in by_reason.items():
        names = fold_names(sorted({measurement.subject for measurement in affected}))
        yield CONDITIONS.warned(
            names,
            f"clocks were held down while measuring: {rows[reason].meaning}",
            expected="no slowdown",
            observed=f"{reason} during "
            f"{', '.join(dict.fromkeys(measurement.bench_id for measurement in affected))}",
            remedy=Remedy(text=rows[reason].remedy, command="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
            evidence=(*refs_of(affected), rows[reason].ref),
        )


def _versions(measured: Sequence[Measurement]) -> Iterator[Finding]:
    """Yield a finding for each software of which the measurements used several versions."""
    for name in ("torch_version", "nccl_version", "cuda_version"):
        by_value = grouped(
            (str(measurement.conditions[name]), measurement)
            for measurement in measured
            if measurement.conditions.get(name)
        )
        if len(by_value) > 1:
            software = name.removesuffix("_version")
            yield CONDITIONS.warned(
                HOST,
                f"measured with {len(by_value)} versions of {software}: the numbers cannot be compared with "
                "each other",
                expected="one version",
                observed=", ".join(sorted(by_value)),
                remedy=Remedy(text="Use one training interpreter on all hosts, and measure again."),
                evidence=refs_of(members[0] for members in by_value.values()),
            )
