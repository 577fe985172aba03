"""What checks of rigtune's own measurements share: the words for a case, failures, and the judgement against
references.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.base.units import gib, percent, quantity
from probes.compare.comparing import SWEPT, Beside, beside_references
from probes.compare.slow_causes import Cause
from probes.facts.measurements import BenchFailure, Measurement
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy, Status
from probes.judging.reporting import HOST, Check, fold_names, given

WRONG = "wrong_result"
"""Kind of a failure in which the hardware computed or carried wrong values."""
_REASONS = {"timeout": Reason.TIMEOUT, "no_interpreter": Reason.TOOL_MISSING}
_LEFT_OUT = frozenset({"unsupported", "stopped"})
"""Kinds of failures that say nothing about the machine: it cannot do so, or nobody waited."""
_MOST_SHOWN = 4


def of(evidence: Evidence, bench_ids: Collection[str], *metrics: str) -> tuple[Measurement, ...]:
    """The measurements of some benchmarks, of all metrics or of those named."""
    return tuple(
        one
        for one in evidence.measurements
        if one.bench_id in bench_ids and one.samples and (not metrics or one.metric in metrics)
    )


def on_measured(
    judge: Judge, failed: Collection[str], bench_ids: Collection[str], *metrics: str, absent: str
) -> Callable[[Callable[[tuple[Measurement, ...], Evidence], Findings]], Check]:
    """Give a check what some benchmarks measured, after the failures of `failed`. Without any, it is skipped
    as `absent`.
    """

    def measured_of(
        judge: Judge, evidence: Evidence
    ) -> Generator[Finding, None, tuple[Measurement, ...] | None]:
        yield from failures(judge, evidence, failed)
        measured = of(evidence, bench_ids, *metrics)
        if not measured:
            yield judge.skipped(HOST, absent)
        return measured or None

    return given(judge, measured_of)


def words_of(measured: Measurement) -> str:
    """The case in a few words: `bf16 8192x8192x8192`, `all reduce 1.0 GiB`."""
    parts = []
    for name, value in measured.parameters.items():
        if name in ("m", "n", "k", "world_size", "backend", "model") or isinstance(value, bool):
            continue
        if name.endswith("bytes") and isinstance(value, (int, float)):
            parts.append(gib(value))
        else:
            parts.append(
                value.replace("_", " ") if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
            )
    shape = [str(measured.parameters[name]) for name in ("m", "n", "k") if name in measured.parameters]
    return " ".join([*parts, *(["x".join(shape)] if shape else [])])


def ref_of(measured: Measurement) -> EvidenceRef:
    detail = ", ".join(part for part in (measured.subject, words_of(measured)) if part)
    return EvidenceRef(source="measurement", key=f"{measured.bench_id} {measured.metric}", detail=detail)


def refs_of(measured: Iterable[Measurement]) -> tuple[EvidenceRef, ...]:
    return tuple(dict.fromkeys(ref_of(one) for one in list(measured)[:_MOST_SHOWN]))


def failures(judge: Judge, evidence: Evidence, bench_ids: Collection[str]) -> Iterator[Finding]:
    """One UNKNOWN for each of these benchmarks that gave no result, or a SKIP where that is no fault of the
    machine.
    """
    for failure in evidence.bench_failures:
        if failure.bench_id in bench_ids and failure.kind != WRONG:
            yield failed_benchmark(judge, failure)


def failed_benchmark(judge: Judge, failure: BenchFailure) -> Finding:
    if failure.kind in _LEFT_OUT:
        return judge.skipped(failure.subject, f"{failure.bench_id} was not measured: {failure.message}")
    unknown = Unknown(_REASONS.get(failure.kind, Reason.ERROR), failure.message)
    return judge.undetermined(
        failure.subject, unknown, what=f"the result of the benchmark {failure.bench_id}"
    )


Parts = dict[str, list[Beside]]


def by_subject(short: Iterable[Beside]) -> Parts:
    """Each subject is a part of its own."""
    parts: Parts = {}
    for beside in short:
        parts.setdefault(beside.measured.subject, []).append(beside)
    return parts


class Aspect(NamedTuple):
    """What a check against references is about."""

    what: str
    """Completes `no ... was measured`."""
    good: str
    slow: str
    remedy: Remedy
    """Where nothing in the facts explains it."""
    cause: Callable[[Evidence, str], Cause | None]
    """What in the facts explains that a part is slow."""
    belongs: Callable[[Measurement], bool]
    """Which measurements of the benchmarks."""
    parts: Callable[[Sequence[Beside], Sequence[Beside]], Parts] = lambda short, _well: by_subject(short)
    """Who is to be named for what falls short, from it and from what does not."""


def judge_references(
    judge: Judge, evidence: Evidence, bench_ids: Collection[str], aspect: Aspect
) -> Iterator[Finding]:
    """Hold measurements against references: one finding per part that falls short, one for all that are well.

    What has no reference is told with its best numbers and judged by nobody: a SKIP. Where the GPUs that were
    measured could not be read, which reference is theirs is UNKNOWN.
    """
    yield from failures(judge, evidence, bench_ids)
    measured = [one for one in of(evidence, bench_ids) if aspect.belongs(one)]
    if not measured:
        yield judge.skipped(HOST, f"no {aspect.what} was measured")
        return
    gpus = evidence.facts.gpus
    if (
        isinstance(gpus, Unknown)
        and gpus.reason is not Reason.NOT_RECORDED
        and any(_is_of_gpus(one) for one in measured)
    ):
        yield judge.undetermined(HOST, gpus, what="the GPUs that were measured")
        return
    found = [beside for beside in beside_references(evidence) if beside.measured in measured]
    slow = {beside.measured.subject for beside in found if beside.status is not Status.PASS}
    short = [beside for beside in found if beside.status is not Status.PASS]
    well = [beside for beside in found if beside.measured.subject not in slow]
    for part, besides in aspect.parts(short, well).items():
        yield falls_short(judge, evidence, part, besides, aspect)
    if well:
        yield judge.passed(
            fold_names(list(dict.fromkeys(beside.measured.subject for beside in well))),
            aspect.good,
            observed=observed([beside.measured for beside in well]),
            evidence=refs_of(beside.measured for beside in well),
        )
    judged = {(beside.measured.bench_id, beside.measured.subject) for beside in found}
    rest = [one for one in measured if (one.bench_id, one.subject) not in judged]
    if rest:
        names = fold_names(list(dict.fromkeys(one.subject for one in rest)))
        yield judge.skipped(
            names, f"there is no reference for this hardware: {observed(rest)}", evidence=refs_of(rest)
        )


def _is_of_gpus(measured: Measurement) -> bool:
    return "GPU" in measured.subject or measured.parameters.get("backend") == "nccl"


def falls_short(
    judge: Judge, evidence: Evidence, part: str, short: Sequence[Beside], aspect: Aspect
) -> Finding:
    worst = min(short, key=lambda beside: beside.share)
    cause = aspect.cause(evidence, part)
    is_failure = any(beside.status is Status.FAIL for beside in short)
    report = judge.failed if is_failure else judge.warned
    why = f": {cause.words}" if cause is not None else ""
    reference = worst.compared
    return report(
        part,
        f"{aspect.slow}, {percent(round(worst.share, 2))} of what such hardware reaches{why}",
        expected=f"about {quantity(reference.value, worst.measured.unit)} ({reference.words})",
        observed=observed([beside.measured for beside in short]),
        remedy=cause.remedy if cause is not None else aspect.remedy,
        evidence=(
            *refs_of(beside.measured for beside in short),
            reference.ref,
            limit_ref(evidence, fails=is_failure),
        ),
    )


def limit_ref(evidence: Evidence, *, fails: bool) -> EvidenceRef:
    """The limit that decided."""
    limits = evidence.thresholds
    return (limits.measured_fail_fraction if fails else limits.measured_warn_fraction).ref


def observed(measured: Iterable[Measurement]) -> str:
    """The best of each family of cases, over all parts: `bf16 701 to 735 TFLOP/s; fp32 51 TFLOP/s`."""
    families: dict[tuple[str, str], dict[str, float]] = {}
    units: dict[str, str] = {}
    for one in measured:
        fixed = " ".join(
            str(value).replace("_", " ") for name, value in one.parameters.items() if _tells(name, value)
        )
        best = families.setdefault((one.metric, fixed), {})
        better = min if one.unit in ("s", "byte") else max
        best[one.subject] = better(best.get(one.subject, one.median), one.median)
        units[one.metric] = one.unit
    told = []
    for (metric, fixed), best in families.items():
        low, high = quantity(min(best.values()), units[metric]), quantity(max(best.values()), units[metric])
        told.append(f"{fixed} {low if low == high else f'{low} to {high}'}".strip())
    more = f"; and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
    return "; ".join(told[:_MOST_SHOWN]) + more


def _tells(name: str, value: object) -> bool:
    return isinstance(value, str) and name not in SWEPT and name not in ("backend", "model", "data_path")
