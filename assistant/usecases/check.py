"""Run the checks of a machine over its facts, one after the other."""

import datetime
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from assistant.usecases.events import Event, FindingMade, StageStarted, stage
from probes.base.record import Reason, Unknown
from probes.base.table_rows import CheckRow, Mode
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.thresholds import Thresholds, load_thresholds
from probes.facts import MachineFacts
from probes.facts.measurements import Baseline, MeasurementSet
from probes.judging.check_table import CHECKS
from probes.judging.counters import Snapshot
from probes.judging.findings import Evidence, Finding, Judge
from probes.judging.monitoring import STATE, recent, since_words, standing
from probes.judging.policies.policy import Policy, SiteOutcome
from probes.judging.policies.selection import missing, under_policy
from probes.judging.reporting import HOST
from probes.judging.verdict import Verdict, judge, unused, waive

if TYPE_CHECKING:
    from probes.compare.measurement_judgement import Judgement


def evidence_under(
    policy: Policy,
    facts: MachineFacts,
    *,
    today: datetime.date | None,
    measured: MeasurementSet | None = None,
    baselines: tuple[Baseline, ...] = (),
    site_outcomes: tuple[SiteOutcome, ...] = (),
    stated_by: dict[str, str] | None = None,
    mode: Mode = "accept",
    earlier: Snapshot | None = None,
    now: datetime.datetime | None = None,
) -> Evidence:
    """Return the evidence for the checks: facts, measurements, the catalogue, and the limits of `policy`."""
    measurements = measured or MeasurementSet()
    return Evidence(
        facts=facts,
        catalogue=load_catalogue(),
        measurements=measurements.measurements,
        bench_failures=measurements.failures,
        baselines=baselines,
        thresholds=_thresholds(policy),
        policy=policy,
        site_outcomes=site_outcomes,
        stated_by=stated_by or {},
        mode=mode,
        earlier=earlier,
        now=now,
        today=today,
    )


def _thresholds(policy: Policy) -> Thresholds:
    if not policy.thresholds:
        return load_thresholds()
    from probes.judging.policies.file import thresholds_under  # noqa: PLC0415 - few policies need it

    return thresholds_under(policy)


@stage("check")
def check_machine(evidence: Evidence, rows: Sequence[CheckRow] = CHECKS) -> Generator[Event, None, Verdict]:
    """Run the checks of `rows` in order; the last event's result is a `Verdict`.

    The policy of `evidence` applies. A check that crashes yields an UNKNOWN finding after those that it made,
    and the other checks still run.
    """
    facts, policy = evidence.facts, evidence.policy
    rows = under_policy(rows, policy)
    yield StageStarted(
        stage="check", title=f"Checking {facts.hostname if isinstance(facts.hostname, str) else facts.source}"
    )
    findings: list[Finding] = []
    recent_evidence = recent(evidence)
    for row in rows:
        made = _run(row, recent_evidence)
        if recent_evidence is not evidence:
            made = standing(made, _run(row, evidence))
        for finding in waive(made, policy.waivers, today=evidence.today):
            findings.append(finding)
            yield FindingMade(finding=finding)
    unneeded = unused(findings, policy.waivers, ran=[row.id for row in rows], today=evidence.today)
    notes = since_words(evidence) + unneeded
    return judge(findings, rows, hostname=facts.hostname, source=facts.source, notes=notes)


def verdict_on(evidence: Evidence, rows: Sequence[CheckRow] = CHECKS) -> Verdict:
    """Run the checks of `rows` and return only the verdict."""
    *_, finished = check_machine(evidence, rows)
    verdict: Verdict = finished.result  # type: ignore[attr-defined]
    return verdict


def judge_measurements(
    facts: MachineFacts,
    measured: MeasurementSet,
    baselines: tuple[Baseline, ...] = (),
    *,
    policy: Policy | None = None,
    today: datetime.date | None = None,
) -> "Judgement":
    """Return the findings of the checks of measurements, worst first, and the comparisons behind them.

    `policy` may set other limits, switch checks off and waive findings; waivers apply only if `today` is
    given.
    """
    from probes.compare.comparing import comparisons  # noqa: PLC0415 - not needed by checks of facts
    from probes.compare.measurement_judgement import Judgement  # noqa: PLC0415

    evidence = evidence_under(policy or Policy(), facts, today=today, measured=measured, baselines=baselines)
    rows = tuple(row for row in CHECKS if row.group == "measured")
    return Judgement(findings=verdict_on(evidence, rows).findings, comparisons=tuple(comparisons(evidence)))


def _run(row: CheckRow, evidence: Evidence) -> list[Finding]:
    off = evidence.policy.checks.off.get(row.id)
    if off is not None:
        return [Judge(check_id=row.id, why="").skipped(HOST, f"switched off by the policy: {off}")]
    findings: list[Finding] = []  # includes the findings that a check yields before it crashes
    if row.is_state and evidence.mode == "monitor":
        return [Judge(check_id=row.id, why="").skipped(HOST, STATE)]
    try:
        absent = missing(row.needs, evidence)
        if absent is not None:
            return [Judge(check_id=row.id, why="").skipped(HOST, absent)]
        findings.extend(row.run(evidence))
    except Exception as error:  # noqa: BLE001 -- one broken check must not hide the findings of all others
        findings.append(_crashed(row, error))
    return findings


def _crashed(row: CheckRow, error: Exception) -> Finding:
    import traceback  # noqa: PLC0415 - it costs milliseconds at start-up

    last = traceback.extract_tb(error.__traceback__)[-1]
    words = traceback.format_exception_only(error)[-1].strip()
    unknown = Unknown(Reason.ERROR, f"{words} ({last.filename.rpartition('/')[2]}, line {last.lineno})")
    judge_of_row = Judge(check_id=row.id, why="The check has a bug, so its subject was not judged.")
    return judge_of_row.undetermined(HOST, unknown, what=f"the result of the check {row.id}")
