"""Shared parts of the checks of rigtune's own measurements: case labels, failures, references."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from probes.base.grouping import grouped
from probes.base.record import EvidenceRef, Reason, Unknown
from probes.base.units import percent, quantity
from probes.compare.comparing import SWEPT, Beside, beside_references
from probes.compare.slow_causes import Cause
from probes.facts.measurements import BenchFailure, Measurement
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy, Status
from probes.judging.measurement_evidence import MOST_SHOWN, measurements_of, refs_of
from probes.judging.reporting import HOST, Check, fold_names, given

WRONG = "wrong_result"
"""Kind of failure for wrong values that the hardware computed or transferred."""
_REASONS = {"timeout": Reason.TIMEOUT, "no_interpreter": Reason.TOOL_MISSING}
_LEFT_OUT = frozenset({"unsupported", "stopped"})
"""Kinds of failures that show no fault of the machine: not supported, or stopped by the user."""


def on_measured(
    judge: Judge, failed: Collection[str], bench_ids: Collection[str], *metrics: str, absent: str
) -> Callable[[Callable[[tuple[Measurement, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the measurements of some benchmarks.

    Failures of the benchmarks `failed` are reported first. Without any measurement, the result is a SKIP with
    the text `absent`.
    """

    def measured_of(
        judge: Judge, evidence: Evidence
    ) -> Generator[Finding, None, tuple[Measurement, ...] | None]:
        yield from failures(judge, evidence, failed)
        measured = measurements_of(evidence, bench_ids, *metrics)
        if not measured:
            yield judge.skipped(HOST, absent)
        return measured or None

    return given(judge, measured_of)


def failures(judge: Judge, evidence: Evidence, bench_ids: Collection[str]) -> Iterator[Finding]:
    """Yield UNKNOWN for each benchmark without a result, or SKIP if the machine is not the cause.

    Wrong results are left out; the check `measured-results` reports them.
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
    """Return one part for each subject, with the subject's measurements that fall short."""
    return grouped((beside.measured.subject, beside) for beside in short)


class Aspect(NamedTuple):
    """Description of a check against references: its benchmarks, texts, causes and parts."""

    judge: Judge
    bench_ids: tuple[str, ...]
    metric: str
    """Metric of the benchmarks that is compared."""

    what: str
    """Text that completes `no ... was measured`."""
    good: str
    slow: str
    remedy: Remedy
    """Remedy if the facts show no cause."""
    cause: Callable[[Evidence, str], Cause | None]
    """Function that finds in the facts why a part is slow."""
    parts: Callable[[Sequence[Beside], Sequence[Beside]], Parts] = lambda short, _well: by_subject(short)
    """Function that takes the slow and the good measurements, and assigns the slow ones to named parts."""


def judge_references(aspect: Aspect, evidence: Evidence) -> Iterator[Finding]:
    """Compare measurements with references: one finding for each part that falls short, and one for all good
    parts.

    One UNKNOWN lists measurements that scatter too much, and one SKIP lists measurements without a reference.
    If the GPUs that were measured could not be read, the only finding is UNKNOWN.
    """
    judge = aspect.judge
    yield from failures(judge, evidence, aspect.bench_ids)
    measured = measurements_of(evidence, aspect.bench_ids, aspect.metric)
    if not measured:
        yield judge.skipped(HOST, f"no {aspect.what} was measured")
        return
    gpus = evidence.facts.gpus
    if (
        isinstance(gpus, Unknown)
        and gpus.reason is not Reason.NOT_RECORDED
        and any("GPU" in row.subject or row.parameters.get("backend") == "nccl" for row in measured)
    ):
        yield judge.undetermined(HOST, gpus, what="the GPUs that were measured")
        return
    compared = [beside for beside in beside_references(evidence) if beside.measured in measured]
    short = [beside for beside in compared if beside.status in (Status.FAIL, Status.WARN)]
    slow = {beside.measured.subject for beside in short}
    unclear = [
        beside.measured
        for beside in compared
        if beside.status is Status.UNKNOWN and beside.measured.subject not in slow
    ]
    left_out = {*slow, *(row.subject for row in unclear)}
    well = [beside for beside in compared if beside.measured.subject not in left_out]
    for part, besides in aspect.parts(short, well).items():
        yield falls_short(aspect, evidence, part, besides)
    if well:
        yield judge.passed(
            fold_names({beside.measured.subject for beside in well}),
            aspect.good,
            observed=observed([beside.measured for beside in well]),
            evidence=refs_of(beside.measured for beside in well),
        )
    if unclear:
        yield too_uncertain(judge, unclear)
    judged = {(beside.measured.bench_id, beside.measured.subject) for beside in compared}
    unjudged = [row for row in measured if (row.bench_id, row.subject) not in judged]
    if unjudged:
        yield judge.skipped(
            fold_names({row.subject for row in unjudged}),
            f"there is no reference for these measurements here: {observed(unjudged)}",
            evidence=refs_of(unjudged),
        )


def too_uncertain(judge: Judge, measured: Sequence[Measurement]) -> Finding:
    """Return UNKNOWN for measurements whose samples scatter too much for a judgement."""
    widest = max(measured, key=lambda row: row.spread)
    scatter = Unknown(Reason.UNCERTAIN, f"samples scatter by ±{percent(round(widest.spread, 2))}")
    names = fold_names(sorted({row.subject for row in measured}))
    benches = ", ".join(dict.fromkeys(row.bench_id for row in measured))
    finding = judge.undetermined(names, scatter, what=f"the speed in {benches}", evidence=refs_of(measured))
    return msgspec.structs.replace(
        finding, summary=f"{benches} cannot be judged: the samples scatter too much"
    )


def falls_short(aspect: Aspect, evidence: Evidence, part: str, short: Sequence[Beside]) -> Finding:
    worst = min(short, key=lambda beside: beside.share)
    cause = aspect.cause(evidence, part)
    is_failure = any(beside.status is Status.FAIL for beside in short)
    why = f": {cause.words}" if cause is not None else ""
    reference = worst.compared
    return aspect.judge.problem(
        part,
        f"{aspect.slow}, {percent(round(worst.share, 2))} of the rate that equal hardware reaches{why}",
        fails=is_failure,
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
    """Return the evidence for the limit that decided the status."""
    limits = evidence.thresholds
    return (limits.measured_fail_fraction if fails else limits.measured_warn_fraction).ref


def observed(measured: Iterable[Measurement]) -> str:
    """Return the range of best results over all parts, for each family of cases: `bf16 701 to 735 TFLOP/s;
    fp32 51 TFLOP/s`.
    """
    families: dict[tuple[str, str], dict[str, float]] = {}
    units: dict[str, str] = {}
    for row in measured:
        fixed = " ".join(
            str(value).replace("_", " ") for name, value in row.parameters.items() if _is_label(name, value)
        )
        best = families.setdefault((row.metric, fixed), {})
        better = min if row.unit in ("s", "byte") else max
        best[row.subject] = better(best.get(row.subject, row.median), row.median)
        units[row.metric] = row.unit
    sentences = []
    for (metric, fixed), best in families.items():
        low, high = quantity(min(best.values()), units[metric]), quantity(max(best.values()), units[metric])
        sentences.append(f"{fixed} {low if low == high else f'{low} to {high}'}".strip())
    more = f"; and {len(sentences) - MOST_SHOWN} more" if len(sentences) > MOST_SHOWN else ""
    return "; ".join(sentences[:MOST_SHOWN]) + more


def _is_label(name: str, value: object) -> bool:
    return isinstance(value, str) and name not in SWEPT and name not in ("backend", "model", "data_path")
