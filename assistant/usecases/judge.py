"""Judge measurements: findings, and the comparison of each number with its references."""

from __future__ import annotations

import datetime

from assistant.usecases.check import check_machine, evidence_under
from probes.compare.comparing import comparisons
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import Baseline, MeasurementSet
from probes.judging.check_table import CHECKS
from probes.judging.policies.policy import Policy
from probes.judging.verdict import Verdict

ROWS = tuple(row for row in CHECKS if row.group == "measured")


def judge_measurements(
    facts: MachineFacts,
    measured: MeasurementSet,
    baselines: tuple[Baseline, ...] = (),
    *,
    policy: Policy | None = None,
    today: datetime.date | None = None,
) -> Judgement:
    """Return the findings of the checks of measurements, worst first, and the comparisons behind them.

    `policy` may set other limits, switch checks off and waive findings; waivers apply only if `today` is
    given.
    """
    evidence = evidence_under(policy or Policy(), facts, today=today, measured=measured, baselines=baselines)
    *_, finished = check_machine(evidence, ROWS)
    verdict: Verdict = finished.result  # type: ignore[attr-defined]
    return Judgement(findings=verdict.findings, comparisons=tuple(comparisons(evidence)))
