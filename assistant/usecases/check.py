"""Is this machine fit to train? Checks over facts, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from assistant.usecases.events import Event, FindingMade, StageFinished, StageStarted
from probes.findings import Evidence, Finding, Judge
from probes.judging import HOST
from probes.needs import missing
from probes.record import Reason, Unknown
from probes.registry import CHECKS, CheckRow
from probes.verdict import judge


def check_machine(evidence: Evidence, rows: Sequence[CheckRow] = CHECKS) -> Iterator[Event]:
    """Run the checks of `rows` in their order; the last event's result is a `Verdict`.

    A check that crashes gives an UNKNOWN of its own, and the others go on.
    """
    started = time.monotonic()
    facts = evidence.facts
    yield StageStarted(stage="check", title=f"Checking {facts.hostname if isinstance(facts.hostname, str) else facts.source}")
    findings: list[Finding] = []
    for row in rows:
        for finding in _run(row, evidence):
            findings.append(finding)
            yield FindingMade(finding=finding)
    verdict = judge(findings, rows, hostname=facts.hostname, source=facts.source)
    yield StageFinished(stage="check", result=verdict, duration_s=time.monotonic() - started)


def _run(row: CheckRow, evidence: Evidence) -> list[Finding]:
    findings: list[Finding] = []
    try:
        absent = missing(row.needs, evidence)
        if absent is not None:
            return [Judge(check_id=row.id, why="").skipped(HOST, absent)]
        findings.extend(getattr(row.load(), row.function)(evidence))
    except Exception as error:  # noqa: BLE001 -- one broken check must not hide the findings of all others
        findings.append(_crashed(row, error))
    return findings


def _crashed(row: CheckRow, error: Exception) -> Finding:
    import traceback  # noqa: PLC0415 - it costs milliseconds at start-up

    last = traceback.extract_tb(error.__traceback__)[-1]
    words = traceback.format_exception_only(error)[-1].strip()
    unknown = Unknown(Reason.ERROR, f"{words} ({last.filename.rpartition('/')[2]}, line {last.lineno})")
    judge_of_row = Judge(check_id=row.id, why="The check has a bug; what it looks at was not judged.")
    return judge_of_row.undetermined(HOST, unknown, what=f"the result of the check {row.id}")
