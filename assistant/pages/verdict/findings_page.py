"""Show the list of findings, problems first, and everything about the chosen one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from assistant.pages.blocks import Column, Row, Section, Table, Words, joined_by, plain, words
from assistant.pages.machine.facts_words import cut
from assistant.pages.terms import BADGE_WIDTH, STATUS, counts
from assistant.pages.verdict.verdict_page import counts_line, problem
from probes.judging.findings import Finding, Status

_QUIET = frozenset({Status.PASS, Status.SKIP})
_SUBJECT_WIDTH = 10
_MOST_ALIKE = 3
"""Number of unknown findings of one reason that are listed one by one."""


class FindingRow(NamedTuple):
    """A line of the list; `key` stays the same when the checks run again."""

    key: str
    finding: Finding
    cells: tuple[Words, ...]
    """Status, subject, and the problem."""

    @property
    def line(self) -> Words:
        """Return the cells as one line in columns."""
        status, subject, summary = self.cells
        gaps = (
            " " * (width - len(plain(cell)))
            for cell, width in ((status, BADGE_WIDTH), (subject, _SUBJECT_WIDTH + 1))
        )
        return status + words(next(gaps)) + subject + words(next(gaps)) + summary


def rows(findings: Sequence[Finding], *, show_all: bool, query: str = "") -> tuple[FindingRow, ...]:
    """Return the findings, problems first, in the order of the checks within a status.

    `query` keeps those that contain every word of it. Without `query` and `show_all`, many checks that could
    not be made for one reason share a line, and waived findings are hidden.
    """
    asked = query.lower().split()
    if not show_all and not asked:
        findings = _folded([finding for finding in findings if finding.waived is None])
    chosen = [
        finding
        for status in STATUS
        for finding in findings
        if finding.status is status
        and (show_all or status not in _QUIET)
        and all(word in _searched(finding) for word in asked)
    ]
    alike = Counter((finding.status, finding.subject, finding.summary) for finding in chosen)
    numbers: Counter[str] = Counter()
    result = []
    for finding in chosen:
        key = f"{finding.check_id}/{finding.subject}"
        numbers[key] += 1
        cells = _cells(finding, names_check=alike[finding.status, finding.subject, finding.summary] > 1)
        result.append(FindingRow(key if numbers[key] == 1 else f"{key}/{numbers[key]}", finding, cells))
    return tuple(result)


def _folded(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with one line for many unknown ones that have the same reason."""
    reasons: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.status is Status.UNKNOWN:
            reasons.setdefault(finding.observed or finding.summary, []).append(finding)
    many = {id(finding): same for same in reasons.values() if len(same) > _MOST_ALIKE for finding in same}
    return [
        _together(many[id(finding)]) if id(finding) in many else finding
        for finding in findings
        if many.get(id(finding), [finding])[0] is finding
    ]


def _together(same: Sequence[Finding]) -> Finding:
    return Finding(
        check_id=same[0].check_id,
        subject=f"{len(same)} checks",
        status=Status.UNKNOWN,
        summary=same[0].observed or same[0].summary,
        observed=f"could not be made: {', '.join(dict.fromkeys(each.check_id for each in same))}",
        evidence=tuple(dict.fromkeys(reference for each in same for reference in each.evidence)),
    )


def _searched(finding: Finding) -> str:
    return " ".join(
        (finding.check_id, finding.subject, finding.status.value, finding.summary, finding.observed)
    ).lower()


def _cells(finding: Finding, *, names_check: bool) -> tuple[Words, ...]:
    """Return the cells of a line; the check is named if lines would otherwise be equal."""
    summary = words(
        f"{'waived: ' if finding.waived else ''}{finding.summary}",
        (f"  {finding.check_id}" if names_check else "", "dim"),
    )
    return STATUS[finding.status].badge, words(cut(finding.subject, _SUBJECT_WIDTH)), summary


def title(findings: Sequence[Finding], shown: int, *, show_all: bool, query: str) -> str:
    """Return counts by status, and what is hidden."""
    statuses = tuple(status for status in STATUS if show_all or status not in _QUIET)
    parts = [", ".join(text for text, _ in counts(findings, statuses)) or "nothing wrong"]
    hidden = len(findings) - shown
    if query:
        parts.append(f"{shown} with {query}")
    elif hidden:
        parts.append(f"a shows {hidden} more")
    return "  ·  ".join(parts)


def detail(finding: Finding) -> Section:
    """Return the observed and the expected value, the reason, remedy and evidence."""
    return problem((finding,), verbose=True)


def remedy(finding: Finding) -> str:
    """Return the text that `y` copies: the command, or the words if there is no command."""
    return finding.remedy.command or finding.remedy.text if finding.remedy else ""


def nothing(findings: Sequence[Finding], *, query: str, is_checking: bool) -> Section:
    """Return the words of an empty list."""
    if is_checking:
        lines = [words(("The checks are running.", "dim"))]
    elif query:
        lines = [words("Nothing matches ", (query, "strong"), "."), words("esc clears the filter.")]
    elif not findings:
        lines = [words(("No check has reported yet. r probes and checks again.", "dim"))]
    else:
        lines = [
            words(("Nothing wrong was found.", "strong")),
            words(f"{counts_line(findings)}. a shows them."),
        ]
    return Section("", tuple(map(Row, lines)))


def summary(findings: Sequence[Finding], limit: int) -> Section:
    """Return the number of findings of each status, then the worst of them."""
    lines = rows(findings, show_all=False)
    last = f"{len(lines) - limit} more on 3 Findings" if len(lines) > limit else ""
    if not lines:
        last = "nothing wrong was found" if findings else "no check has reported yet"
    counted = joined_by("  ", (words(part) for part in counts(findings)))
    columns = (Column(least=BADGE_WIDTH - 1, fixed=True), Column(fixed=True), Column())
    table = [Table(columns, tuple(row.cells for row in lines[:limit]), gap=1)] if lines else []
    return Section(
        "Findings", (*[Row(counted)] * bool(counted), *table, *[Row(words((last, "dim")))] * bool(last))
    )
