"""Write a verdict as the output of a Nagios plugin: one line with performance data, then the problems.

Source of the form: Nagios plugin guidelines, plugin output and performance data (2026-11).
"""

from __future__ import annotations

from assistant.formats.reason import problem_line, shortened
from probes.base.record import printable
from probes.judging.findings import Status
from probes.judging.verdict import Verdict

WORDS = {
    Status.PASS: "OK",
    Status.WARN: "WARNING",
    Status.FAIL: "CRITICAL",
    Status.UNKNOWN: "UNKNOWN",
    Status.SKIP: "UNKNOWN",
}
_MOST_LINES = 20
_LABELS = (
    (Status.FAIL, "failed", ";;0"),
    (Status.UNKNOWN, "unknown", ""),
    (Status.WARN, "warned", ";0"),
    (Status.PASS, "passed", ""),
    (Status.SKIP, "skipped", ""),
)
"""Outcome, name, and the limits above which Nagios itself would warn or alarm."""


def nagios_text(verdict: Verdict) -> str:
    """Return `RIGTUNE CRITICAL - nvlink-active GPU3: ...

    failed=1;;0 ...` and the further problems.
    """
    problems = [
        problem_line(finding)
        for finding in verdict.findings
        if finding.waived is None
        and (
            finding.status in (Status.FAIL, Status.WARN)
            or (finding.status is Status.UNKNOWN and finding.check_id in verdict.required_unknown)
        )
    ]
    first = problems[0] if problems else _nothing(verdict)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    numbers = [f"{name}={verdict.counts[status]}{limits}" for status, name, limits in _LABELS]
    if verdict.duration_s is not None:
        numbers.append(f"time={verdict.duration_s:.3f}s")
    lines = [f"{_plain(f'RIGTUNE {WORDS[verdict.verdict]} - {first}{more}')} | {' '.join(numbers)}"]
    lines += [_plain(line) for line in problems[1 : _MOST_LINES + 1]]
    return "\n".join(lines) + "\n"


def nagios_failure(message: str) -> str:
    """Return the line for a command that has no verdict."""
    return _plain(shortened(f"RIGTUNE UNKNOWN - {printable(message)}")) + "\n"


def _nothing(verdict: Verdict) -> str:
    if verdict.verdict is Status.UNKNOWN:
        return "nothing is known of this machine"
    return f"fit to train, {verdict.counts[Status.PASS]} passed"


def _plain(line: str) -> str:
    """Return words without the pipe, which begins the performance data."""
    return printable(line).replace("|", "/")
