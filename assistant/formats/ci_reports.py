"""Write a verdict for CI: JUnit XML, and Markdown for the summary of a step.

JUnit has one test case for each check with findings; a test case has the same name in every run. The worst
finding decides: FAIL is a failure, UNKNOWN an error, SKIP and waived findings are skipped, WARN passes with
its text on system-out. Source of the form: the JUnit schema of the Jenkins xUnit plugin; goss,
outputs/junit.go. The Markdown is a heading and a line of counts. A table of problems and folded lists follow
if there are any.
"""

import re
from collections.abc import Sequence

from assistant.formats.monitoring import problem_line
from assistant.pages.terms import STATUS
from assistant.pages.verdict.verdict_page import counts_line, name_of
from assistant.text.plain_writer import clean
from probes.base.record import REPLACEMENT, known, printable
from probes.judging.check_table import CHECKS
from probes.judging.findings import WORST_FIRST, Finding, Status
from probes.judging.verdict import Verdict

_SUITE = "rigtune check"
_XML_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\n": "&#10;", "\t": "&#9;"}
)
_MARKS = {Status.PASS: "✅", Status.WARN: "⚠️", Status.FAIL: "❌", Status.UNKNOWN: "❓", Status.SKIP: "➖"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~]|:(?=//))")
_ENTITIES = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"})
_PROBLEMS = (Status.FAIL, Status.WARN, Status.UNKNOWN)
_MOST = 50
"""Largest number of rows of a table; CI systems limit the size of a summary."""


def junit_text(verdict: Verdict) -> str:
    """Return the whole document."""
    cases: dict[str, list[Finding]] = {}
    for finding in sorted(verdict.findings, key=_rank):  # the worst finding of a check comes first
        cases.setdefault(finding.check_id, []).append(finding)
    outcomes = [
        Status.SKIP if findings[0].waived is not None else findings[0].status for findings in cases.values()
    ]
    counted = {
        "tests": len(cases),
        "failures": outcomes.count(Status.FAIL),
        "errors": outcomes.count(Status.UNKNOWN),
        "skipped": outcomes.count(Status.SKIP),
    }
    numbers = "".join(f' {name}="{number}"' for name, number in counted.items())
    time = f' time="{verdict.duration_s or 0.0:.3f}"'
    host = _attribute("hostname", verdict.hostname) if known(verdict.hostname) else ""
    moment = _attribute("timestamp", verdict.started.strftime("%Y-%m-%dT%H:%M:%S")) if verdict.started else ""
    return "\n".join((
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="{_SUITE}"{numbers}{time}>',
        f'  <testsuite name="{_SUITE}"{numbers}{time}{host}{moment}>',
        *(line for row in CHECKS for line in _case(row.id, row.group, cases.pop(row.id, []))),
        *(line for check_id, findings in cases.items() for line in _case(check_id, "other", findings)),
        "  </testsuite>",
        "</testsuites>",
        "",
    ))  # fmt: skip


def _rank(finding: Finding) -> int:
    """Return the rank of a finding among the findings of its check; a waived finding ranks like PASS."""
    return WORST_FIRST.index(Status.PASS if finding.waived is not None else finding.status)


def _case(check_id: str, group: str, findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    start = f"    <testcase{_attribute('classname', f'rigtune.{group}')}{_attribute('name', check_id)}"
    inner = _inside(findings[0], findings[1:])
    return [f"{start}>", f"      {inner}", "    </testcase>"] if inner else [f"{start}/>"]


def _inside(finding: Finding, others: Sequence[Finding]) -> str:
    """Return the outcome of a check: its worst finding, and the text of its other problems."""
    message = _attribute("message", problem_line(finding))
    problems = [each for each in others if each.waived is None and each.status in _PROBLEMS]
    more = "".join(f"\n{each.status.value} {problem_line(each)}\n{_words(each)}" for each in problems)
    if finding.waived is not None:
        message = _attribute("message", f"waived until {finding.waived.expires}: {finding.waived.reason}")
        return f"<skipped{message}/>"
    match finding.status:
        case Status.FAIL:
            return f'<failure type="FAIL"{message}>{_xml(_words(finding) + more)}</failure>'
        case Status.UNKNOWN:
            return f'<error type="UNKNOWN"{message}>{_xml(_words(finding) + more)}</error>'
        case Status.WARN:
            text = _xml(f"WARN {problem_line(finding)}\n{_words(finding)}{more}")
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
    return f' {name}="{_xml(value)}"'


def _xml(text: str) -> str:
    """Return `text` escaped for XML; a mark replaces characters that XML 1.0 cannot contain in any form."""
    return "".join(
        each if each in "\t\n" or (each.isprintable() and each not in "\ufffe\uffff") else REPLACEMENT
        for each in printable(text)
    ).translate(_XML_ESCAPES)


def markdown_text(verdict: Verdict) -> str:
    """Return the whole summary."""
    lines = [
        f"### {_MARKS[verdict.verdict]} {escaped(name_of(verdict))} {STATUS[verdict.verdict].answer}",
        "",
        f"{counts_line(verdict.findings)}.",
    ]
    counting = [finding for finding in verdict.findings if finding.waived is None]
    problems = [finding for finding in counting if finding.status in (Status.FAIL, Status.WARN)]
    if problems:
        lines += ["", "| | check | where | what | found | wanted | do |", "|---|---|---|---|---|---|---|"]
        lines += [_row(finding) for finding in problems[:_MOST]]
        lines += _left_out(len(problems))
    if verdict.required_unknown:
        lines += [
            "",
            "Required and not checked: " + ", ".join(map(code_span, verdict.required_unknown)) + ".",
        ]
    lines += _folded(
        "could not be checked",
        [
            f"{code_span(f.check_id)} {escaped(f.subject)}: "
            + escaped(", ".join(filter(None, (f.summary, f.observed))))
            for f in counting
            if f.status is Status.UNKNOWN
        ],
    )
    lines += _folded(
        "waived",
        [
            f"{code_span(f.check_id)} {escaped(f.subject)}: "
            f"{escaped(f.waived.reason)}, until {f.waived.expires}"
            for f in verdict.findings
            if f.waived is not None
        ],
    )
    lines += [line for note in verdict.notes for line in ("", f"Note: {escaped(note)}.")]
    return "\n".join(lines) + "\n"


def _row(finding: Finding) -> str:
    remedy = finding.remedy
    texts = (finding.subject, finding.summary, finding.observed, finding.expected)
    cells = (
        f"{_MARKS[finding.status]} {finding.status.value}",
        code_span(finding.check_id),
        *map(escaped, texts),
        f"{escaped(remedy.text)} {code_span(remedy.command)}".strip() if remedy else "",
    )
    return f"| {' | '.join(cells)} |"


def _folded(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    entries = [f"- {item}" for item in (*items[:_MOST], *_left_out(len(items))[1:])]
    return ["", f"<details><summary>{len(items)} {title}</summary>", "", *entries, "", "</details>"]


def _left_out(count: int) -> list[str]:
    return ["", f"Left out here: {count - _MOST} more."] if count > _MOST else []


def escaped(text: str) -> str:
    """Return text that comes from a machine, without markup, links or mentions of users."""
    return _SPECIAL.sub(r"\\\1", _one_line(text)).translate(_ENTITIES)


def code_span(text: str) -> str:
    """Return a code span; the bar of tables is escaped and backticks are replaced."""
    line = _one_line(text).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


def _one_line(text: str) -> str:
    return clean(" ".join(printable(text).split()))
