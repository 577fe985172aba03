"""Derive one verdict and one exit code from all findings."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Literal

from probes.base.errors import ExitCode
from probes.base.record import NOT_RECORDED, Record, Unknown
from probes.base.table_rows import CheckRow, Tier
from probes.judging.findings import WORST_FIRST, Finding, Status

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
    """Findings that are not waived, by status; every status is there."""
    waived: int = 0
    """Findings that do not count because a waiver of the policy covers them."""
    notes: tuple[str, ...] = ()
    """Other facts for the operator: waivers that no longer cover anything."""
    tier: Tier = "deep"
    deep_only: tuple[str, ...] = ()
    """Checks that `--tier deep` would add."""
    deselected: tuple[str, ...] = ()
    """Checks that `--only` or `--skip` left out."""
    started: datetime.datetime | None = None
    """When the machine was looked at, in UTC."""
    duration_s: float | None = None


def judge(
    findings: Sequence[Finding],
    rows: Sequence[CheckRow],
    *,
    hostname: str | Unknown,
    source: str,
    notes: tuple[str, ...] = (),
) -> Verdict:
    """Weigh `findings` of the checks in `rows`.

    FAIL outweighs an UNKNOWN of a required check, which outweighs WARN, and WARN outweighs PASS. An
    UNKNOWN of any other check is listed and does not count; neither does a waived finding. If nothing
    passed and nothing failed, the verdict is UNKNOWN.
    """
    counting = [finding for finding in findings if finding.waived is None]
    counts = {status: sum(finding.status is status for finding in counting) for status in Status}
    unknown = {finding.check_id for finding in counting if finding.status is Status.UNKNOWN}
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
        waived=len(findings) - len(counting),
        notes=notes,
    )


def exit_code(verdict: Verdict, fail_on: FailOn = "fail") -> ExitCode:
    """Return the exit code of the process, for every output format.

    1 for findings at or above `fail_on`, else 3 if a required check is UNKNOWN, else 0.
    """
    warned = fail_on == "warn" and verdict.counts[Status.WARN] > 0
    if verdict.verdict is Status.FAIL or warned:
        return ExitCode.FINDINGS
    return ExitCode.UNKNOWN if verdict.verdict is Status.UNKNOWN else ExitCode.OK


def decisive(verdict: Verdict, fail_on: FailOn = "fail") -> tuple[Finding, ...]:
    """Return the findings that decided the exit code, worst first.

    Empty if the code is 0 or if nothing at all is known.
    """
    required = set(verdict.required_unknown)
    return tuple(
        finding
        for finding in verdict.findings
        if finding.waived is None
        and (
            finding.status is Status.FAIL
            or (finding.status is Status.UNKNOWN and finding.check_id in required)
            or (finding.status is Status.WARN and fail_on == "warn")
        )
    )


def _sorted(findings: Iterable[Finding], rows: Sequence[CheckRow]) -> tuple[Finding, ...]:
    place = {row.id: index for index, row in enumerate(rows)}
    return tuple(
        sorted(
            findings,
            key=lambda finding: (WORST_FIRST.index(finding.status), place.get(finding.check_id, len(rows))),
        )
    )
