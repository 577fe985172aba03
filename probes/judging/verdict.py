"""Derive one verdict and one exit code from all findings, except findings that a waiver of the policy covers.

The profile names the program for which the exit code is meant. The exit code never depends on the output
format.

| profile | 0 | 1 | 2 | 3 |
| --- | --- | --- | --- | --- |
| gate | fit | findings at or above `fail_on` | wrong usage or input | the verdict is UNKNOWN |
| nagios | OK | WARNING | CRITICAL | UNKNOWN, also when rigtune itself failed |
| npd | OK | problem | unknown, also when rigtune itself failed | |
| slurm, nhc | fit | not fit, or the verdict is UNKNOWN | wrong usage or input | |

Under slurm and nhc, the exit code is 0 if nothing counts against the machine but required checks that ran out
of time: a slow driver must not cause a refused job or a drained node. A fault of rigtune itself ends with 70,
except under nagios and npd.

Sources: Nagios plugin guidelines, plugin return codes; kubernetes/node-problem-detector, custom plugin
monitor; Slurm, prolog and epilog guide; LBNL Node Health Check, custom checks (2026-11).
"""

import datetime
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from probes.base.errors import ExitCode
from probes.base.record import NOT_RECORDED, Reason, Record, Unknown
from probes.base.table_rows import CheckRow, Mode, Tier
from probes.judging.findings import WORST_FIRST, Finding, Status
from probes.judging.policies.policy import Waiver

SCHEMA_VERSION = 1

FailOn = Literal["fail", "warn"]
Profile = Literal["gate", "nagios", "npd", "slurm", "nhc"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

_NAGIOS = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2, Status.UNKNOWN: 3, Status.SKIP: 3}
_NPD = {ExitCode.OK: 0, ExitCode.FINDINGS: 1, ExitCode.UNKNOWN: 2}
_WAIVABLE = frozenset({Status.FAIL, Status.WARN, Status.UNKNOWN})


class Verdict(Record, kw_only=True):
    """The judgement of all checks. Its JSON is the output of `rigtune check --format json`."""

    schema_version: int = SCHEMA_VERSION
    hostname: str | Unknown = NOT_RECORDED
    source: str = ""
    """Title of the source of the facts."""
    verdict: Status
    """PASS, WARN, FAIL or UNKNOWN."""
    findings: tuple[Finding, ...]
    """Worst first, then in the order of the table of checks."""
    required_unknown: tuple[str, ...] = ()
    """The required checks that could not be carried out."""
    counts: dict[Status, int]
    """Number of findings that are not waived, for every status."""
    waived: int = 0
    """Findings that do not count because a waiver of the policy covers them."""
    notes: tuple[str, ...] = ()
    """Notes on the run with which counters are compared, and on waivers that no longer cover any finding."""
    mode: Mode = "accept"
    tier: Tier = "deep"
    deep_only: tuple[str, ...] = ()
    """Checks that `--tier deep` would add."""
    deselected: tuple[str, ...] = ()
    """Checks that `--only` or `--skip` left out."""
    started: datetime.datetime | None = None
    """Time at which the facts were read, in UTC."""
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
    UNKNOWN of any other check is listed and does not count; neither does a waived finding. If no finding
    that counts is a PASS, WARN or FAIL, the verdict is UNKNOWN.
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
    """Return the exit code of the process under the profile `gate`, for every output format.

    The code is 1 for findings at or above `fail_on`, else 3 if the verdict is UNKNOWN, else 0.
    """
    warned = fail_on == "warn" and verdict.counts[Status.WARN] > 0
    if verdict.verdict is Status.FAIL or warned:
        return ExitCode.FINDINGS
    return ExitCode.UNKNOWN if verdict.verdict is Status.UNKNOWN else ExitCode.OK


def decisive(verdict: Verdict, fail_on: FailOn = "fail") -> tuple[Finding, ...]:
    """Return the findings that count against the machine in the exit code, worst first.

    The result is empty if the code is 0, or if it is 3 because no check gave a result.
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


def exit_status(verdict: Verdict, profile: Profile = "gate", fail_on: FailOn = "fail") -> int:
    """Return the exit code of a verdict.

    Nagios has a separate code for warnings, so `fail_on` does not affect its code.
    """
    code = exit_code(verdict, fail_on)
    match profile:
        case "gate":
            return int(code)
        case "nagios":
            return _NAGIOS[verdict.verdict]
        case "npd":
            return _NPD[code]
        case _:
            return 0 if code is ExitCode.OK or _is_only_late(verdict, fail_on) else 1


def _is_only_late(verdict: Verdict, fail_on: FailOn) -> bool:
    """Return whether only checks that ran out of time decided the exit code."""
    reasons = {finding.unknown for finding in decisive(verdict, fail_on)}
    return reasons == {Reason.TIMEOUT}


def failure_status(code: int, profile: Profile = "gate") -> int:
    """Return the exit code for a run without a verdict; `code` is rigtune's own exit code."""
    return {"nagios": 3, "npd": 2}.get(profile, code)


def waive(
    findings: Iterable[Finding], waivers: Sequence[Waiver], *, today: datetime.date | None
) -> tuple[Finding, ...]:
    """Return the findings; findings that a waiver covers on this day are marked."""
    valid = [waiver for waiver in waivers if waiver.holds_on(today)]
    return tuple(_marked(finding, valid) for finding in findings)


def unused(
    findings: Iterable[Finding], waivers: Sequence[Waiver], *, ran: Iterable[str], today: datetime.date | None
) -> tuple[str, ...]:
    """Return a note on each valid waiver that covers none of `findings`.

    A waiver for a check that is not in `ran` may still be needed.
    """
    made = set(ran)
    problems = [finding for finding in findings if finding.status in _WAIVABLE]
    return tuple(
        f"the waiver of {waiver.check} on {waiver.subject} covers no finding; remove it"
        for waiver in waivers
        if waiver.holds_on(today)
        and waiver.check in made
        and not any(waiver.covers(finding.check_id, finding.subject) for finding in problems)
    )


def _marked(finding: Finding, valid: Sequence[Waiver]) -> Finding:
    if finding.status not in _WAIVABLE:
        return finding
    waiver = next((waiver for waiver in valid if waiver.covers(finding.check_id, finding.subject)), None)
    return finding if waiver is None else msgspec.structs.replace(finding, waived=waiver)
