"""Write a verdict in one line, for Slurm's reason, NHC, node-problem-detector, Nagios and the journal."""

from __future__ import annotations

from assistant.text.lines import clean
from probes.judging.findings import Finding
from probes.judging.verdict import FailOn, Verdict, decisive

_LONGEST = 200
"""Largest number of characters; readers may cut sooner, so that the check's id comes first.

node-problem-detector keeps 80.
"""


def problem_line(finding: Finding) -> str:
    """Return `nvlink-active GPU3: 17 of 18 NVLinks are up (17 up, 1 down)`."""
    observed = (
        f" ({finding.observed})" if finding.observed and finding.observed not in finding.summary else ""
    )
    return shortened(f"{finding.check_id} {finding.subject}: {finding.summary}{observed}")


def reason_line(verdict: Verdict, fail_on: FailOn = "fail", *, first_only: bool = False) -> str:
    """Return why the exit code is not 0, the worst first and the number of others; empty if it is 0."""
    problems = decisive(verdict, fail_on)
    if not problems:
        is_unknown = verdict.verdict.value == "UNKNOWN"
        return "verdict host: nothing is known of this machine" if is_unknown else ""
    line = problem_line(problems[0])
    others = list(
        dict.fromkeys(finding.check_id for finding in problems if finding.check_id != problems[0].check_id)
    )
    if first_only or not others:
        return line
    return shortened(f"{line}; also {', '.join(others)}")


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return one printable line of at most `longest` characters."""
    line = clean(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 3].rstrip() + "..."
