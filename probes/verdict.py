"""Is the machine fit to train? One word over all findings, and the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from probes.errors import ExitCode
from probes.findings import WORST_FIRST, Finding, Status
from probes.record import NOT_RECORDED, Record, Unknown
from probes.registry import CheckRow

SCHEMA_VERSION = 1

FailOn = Literal["fail", "warn"]


class Verdict(Record, kw_only=True):
    """The judgement of all checks. Its JSON is the output of `rigtune check --format json`."""

    schema_version: int = SCHEMA_VERSION
    hostname: str | Unknown = NOT_RECORDED
    source: str = ""
    """Title of the source that the facts came from."""
    verdict: Status
    """PASS, WARN, FAIL or UNKNOWN."""
    findings: tuple[Finding, ...]
    """Worst first, then in the order of the table of checks."""
    required_unknown: tuple[str, ...] = ()
    """The required checks that could not be made."""
    counts: dict[Status, int]
    """Findings by status; every status is there."""


def judge(findings: Sequence[Finding], rows: Sequence[CheckRow], *, hostname: str | Unknown, source: str) -> Verdict:
    """Weigh `findings` of the checks in `rows`.

    FAIL outweighs an UNKNOWN of a required check, that outweighs WARN, and WARN outweighs PASS. An UNKNOWN of any other
    check is listed and does not count. Where nothing passed and nothing failed, nothing is known: UNKNOWN.
    """
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    unknown = {finding.check_id for finding in findings if finding.status is Status.UNKNOWN}
    required_unknown = tuple(row.id for row in rows if row.required and row.id in unknown)
    if counts[Status.FAIL]:
        word = Status.FAIL
    elif required_unknown:
        word = Status.UNKNOWN
    elif counts[Status.WARN]:
        word = Status.WARN
    else:
        word = Status.PASS if counts[Status.PASS] else Status.UNKNOWN
    return Verdict(
        hostname=hostname,
        source=source,
        verdict=word,
        findings=_sorted(findings, rows),
        required_unknown=required_unknown,
        counts=counts,
    )


def exit_code(verdict: Verdict, fail_on: FailOn = "fail") -> ExitCode:
    """What the process says, whatever the output format: 1 for findings at or above `fail_on`, else 3 where a required
    check is UNKNOWN, else 0."""
    warned = fail_on == "warn" and verdict.counts[Status.WARN] > 0
    if verdict.verdict is Status.FAIL or warned:
        return ExitCode.FINDINGS
    return ExitCode.UNKNOWN if verdict.verdict is Status.UNKNOWN else ExitCode.OK


def _sorted(findings: Iterable[Finding], rows: Sequence[CheckRow]) -> tuple[Finding, ...]:
    place = {row.id: index for index, row in enumerate(rows)}
    return tuple(
        sorted(findings, key=lambda finding: (WORST_FIRST.index(finding.status), place.get(finding.check_id, len(rows))))
    )
