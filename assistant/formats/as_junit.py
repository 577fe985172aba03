"""Write a verdict as JUnit XML, one test case for each finding.

FAIL is a failure, UNKNOWN an error, SKIP and waived findings are skipped, WARN passes with its words on
system-out. Source of the form: the JUnit schema of the Jenkins xUnit plugin; goss, outputs/junit.go.
"""

from __future__ import annotations

from assistant.formats.reason import problem_line
from probes.base.record import known, printable
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Status
from probes.judging.verdict import Verdict

_SUITE = "rigtune check"
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\n": "&#10;", "\t": "&#9;"}
)


def junit_text(verdict: Verdict) -> str:
    """Return the whole document."""
    findings = verdict.findings
    counted = {
        "tests": len(findings),
        "failures": verdict.counts[Status.FAIL],
        "errors": verdict.counts[Status.UNKNOWN],
        "skipped": verdict.counts[Status.SKIP] + verdict.waived,
    }
    numbers = "".join(f' {name}="{number}"' for name, number in counted.items())
    time = f' time="{verdict.duration_s or 0.0:.3f}"'
    host = _attribute("hostname", verdict.hostname) if known(verdict.hostname) else ""
    moment = _attribute("timestamp", verdict.started.strftime("%Y-%m-%dT%H:%M:%S")) if verdict.started else ""
    groups = {row.id: row.group for row in CHECKS}
    return "\n".join((
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="{_SUITE}"{numbers}{time}>',
        f'  <testsuite name="{_SUITE}"{numbers}{time}{host}{moment}>',
        *(line for finding in findings for line in _case(finding, groups.get(finding.check_id, "other"))),
        "  </testsuite>",
        "</testsuites>",
        "",
    ))  # fmt: skip


def _case(finding: Finding, group: str) -> list[str]:
    name = _attribute("name", f"{finding.check_id} [{finding.subject}]")
    start = f"    <testcase{_attribute('classname', f'rigtune.{group}')}{name}"
    inner = _inside(finding)
    return [f"{start}>", f"      {inner}", "    </testcase>"] if inner else [f"{start}/>"]


def _inside(finding: Finding) -> str:
    message = _attribute("message", problem_line(finding))
    if finding.waived is not None:
        waived = f"waived until {finding.waived.expires}: {finding.waived.reason}"
        return f"<skipped{_attribute('message', waived)}/>"
    match finding.status:
        case Status.FAIL:
            return f'<failure type="FAIL"{message}>{_escaped(_words(finding))}</failure>'
        case Status.UNKNOWN:
            return f'<error type="UNKNOWN"{message}>{_escaped(_words(finding))}</error>'
        case Status.WARN:
            text = _escaped(f"WARN {problem_line(finding)}\n{_words(finding)}")
            return f"<system-out>{text}</system-out>"
        case Status.SKIP:
            return f"<skipped{_attribute('message', finding.summary)}/>"
    return ""


def _words(finding: Finding) -> str:
    remedy = finding.remedy
    fields = (
        ("found", finding.observed),
        ("wanted", finding.expected),
        ("why", finding.why),
        ("do", remedy.text if remedy else ""),
        ("command", remedy.command if remedy else ""),
    )
    return "\n".join(f"{name}: {value}" for name, value in fields if value)


def _attribute(name: str, value: str) -> str:
    return f' {name}="{_escaped(value)}"'


def _escaped(text: str) -> str:
    """Return `text` without the characters that XML 1.0 cannot contain in any form."""
    return "".join(
        character if _is_xml(character) else "\N{REPLACEMENT CHARACTER}" for character in printable(text)
    ).translate(_ESCAPES)


def _is_xml(character: str) -> bool:
    return character in "\t\n" or (character.isprintable() and character not in "\ufffe\uffff")
