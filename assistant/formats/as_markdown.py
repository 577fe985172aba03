"""Write a verdict as Markdown for the summary of a CI step: one line, and a table of problems if any."""

from __future__ import annotations

import re

from assistant.pages.terms import STATUS
from assistant.pages.verdict.verdict_page import counts_line, name_of
from assistant.text.lines import clean
from probes.base.record import printable
from probes.judging.findings import Finding, Status
from probes.judging.verdict import Verdict

_MARKS = {Status.PASS: "✅", Status.WARN: "⚠️", Status.FAIL: "❌", Status.UNKNOWN: "❓", Status.SKIP: "➖"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~]|:(?=//))")
_ENTITIES = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"})
_MOST = 50
"""Largest number of rows of a table; CI systems limit the size of a summary."""


def markdown_text(verdict: Verdict) -> str:
    """Return the whole summary."""
    lines = [
        f"### {_MARKS[verdict.verdict]} {_escaped(name_of(verdict))} {STATUS[verdict.verdict].answer}",
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
        lines += ["", "Required and not checked: " + ", ".join(map(_code, verdict.required_unknown)) + "."]
    unknown = [finding for finding in counting if finding.status is Status.UNKNOWN]
    lines += _folded(
        "could not be checked",
        [f"{_code(f.check_id)} {_escaped(f.subject)}: {_escaped(_words(f))}" for f in unknown],
    )
    waived = [(finding, finding.waived) for finding in verdict.findings if finding.waived is not None]
    lines += _folded(
        "waived",
        [
            f"{_code(f.check_id)} {_escaped(f.subject)}: {_escaped(w.reason)}, until {w.expires}"
            for f, w in waived
        ],
    )
    lines += [line for note in verdict.notes for line in ("", f"Note: {_escaped(note)}.")]
    return "\n".join(lines) + "\n"


def _row(finding: Finding) -> str:
    remedy = finding.remedy
    done = " ".join(part for part in (_escaped(remedy.text), _code(remedy.command)) if part) if remedy else ""
    cells = (
        _escaped(text) for text in (finding.subject, finding.summary, finding.observed, finding.expected)
    )
    status = f"{_MARKS[finding.status]} {finding.status.value}"
    return f"| {status} | {_code(finding.check_id)} | {' | '.join(cells)} | {done} |"


def _words(finding: Finding) -> str:
    return f"{finding.summary}, {finding.observed}" if finding.observed else finding.summary


def _folded(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    entries = [f"- {item}" for item in items[:_MOST]] + [
        f"- {words}" for words in _left_out(len(items)) if words
    ]
    return ["", f"<details><summary>{len(items)} {title}</summary>", "", *entries, "", "</details>"]


def _left_out(count: int) -> list[str]:
    return ["", f"{count - _MOST} more are left out here."] if count > _MOST else []


def _escaped(text: str) -> str:
    """Return text of a machine without markup, links or mentions of users."""
    return _SPECIAL.sub(r"\\\1", _one_line(text)).translate(_ENTITIES)


def _code(text: str) -> str:
    """Return a code span; a table's bar is escaped and a backtick replaced."""
    line = _one_line(text).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


def _one_line(text: str) -> str:
    return clean(" ".join(printable(text).split()))
