"""The findings page: a list, problems first, and everything about the chosen one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from assistant.present.text import (
    CAUTION,
    CODE,
    DIM,
    PROBLEMS_FIRST,
    STATUS_WORDS,
    STRONG,
    clean,
    clean_block,
    pairs,
    plain,
    status_text,
)
from probes.base.record import EvidenceRef
from probes.judging.findings import Finding, Remedy, Status

_QUIET = frozenset({Status.PASS, Status.SKIP})
_SUBJECT_WIDTH = 10
_STATUS_WIDTH = 9
_MOST_ALIKE = 3
"""Unknown findings of one reason that are listed one by one."""


class FindingRow(NamedTuple):
    """One line of the list. `key` stays the same when the checks run again."""

    key: str
    finding: Finding
    line: Text


def rows(findings: Sequence[Finding], *, show_all: bool, query: str = "") -> tuple[FindingRow, ...]:
    """Problems first, in the order of the checks within a status. `query` keeps those that contain every word
    of it.

    Without `query` and `show_all`, many checks that could not be made for one reason share a line, and what
    is waived is hidden.
    """
    words = query.lower().split()
    if not show_all and not words:
        findings = _folded([finding for finding in findings if finding.waived is None])
    found = []
    seen: Counter[str] = Counter()
    for status in PROBLEMS_FIRST:
        for finding in findings:
            if finding.status is not status or (status in _QUIET and not show_all):
                continue
            if not all(word in _searched(finding) for word in words):
                continue
            key = f"{finding.check_id}/{finding.subject}"
            seen[key] += 1
            found.append((key if seen[key] == 1 else f"{key}/{seen[key]}", finding))
    alike = Counter((finding.status, finding.subject, finding.summary) for _, finding in found)
    return tuple(
        FindingRow(
            key,
            finding,
            _line(finding, names_check=alike[finding.status, finding.subject, finding.summary] > 1),
        )
        for key, finding in found
    )


def _folded(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with one in the place of many unknown ones that have the same reason."""
    reasons: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.status is Status.UNKNOWN and finding.observed:
            reasons.setdefault(finding.observed, []).append(finding)
    many = {reason: same for reason, same in reasons.items() if len(same) > _MOST_ALIKE}
    kept = []
    for finding in findings:
        same = many.get(finding.observed, []) if finding.status is Status.UNKNOWN else []
        if not same:
            kept.append(finding)
        elif finding is same[0]:
            checks = ", ".join(dict.fromkeys(each.check_id for each in same))
            kept.append(
                Finding(
                    check_id=finding.check_id,
                    subject=f"{len(same)} checks",
                    status=Status.UNKNOWN,
                    summary=finding.observed,
                    observed=f"could not be made: {checks}",
                    evidence=tuple(dict.fromkeys(reference for each in same for reference in each.evidence)),
                )
            )
    return kept


def _searched(finding: Finding) -> str:
    parts = (finding.check_id, finding.subject, finding.status.value, finding.summary, finding.observed)
    return " ".join(parts).lower()


def _line(finding: Finding, *, names_check: bool) -> Text:
    """The check is named where lines would say the same."""
    subject = clean(finding.subject)
    if len(subject) > _SUBJECT_WIDTH:
        subject = subject[: _SUBJECT_WIDTH - 1] + "…"
    return Text.assemble(
        status_text(finding.status, _STATUS_WIDTH),
        " ",
        subject.ljust(_SUBJECT_WIDTH),
        " ",
        "waived: " if finding.waived else "",
        clean(finding.summary),
        (f"  {clean(finding.check_id)}" if names_check else "", DIM),
    )


def title(findings: Sequence[Finding], shown: int, *, show_all: bool, query: str) -> str:
    """Counts by status, and what is hidden."""
    counts = Counter(finding.status for finding in findings)
    statuses = [status for status in PROBLEMS_FIRST if counts[status] and (show_all or status not in _QUIET)]
    parts = [
        ", ".join(f"{counts[status]} {STATUS_WORDS[status].word}" for status in statuses) or "nothing wrong"
    ]
    hidden = len(findings) - shown
    if query:
        parts.append(f"{shown} with {clean(query)}")
    elif hidden:
        parts.append(f"a shows {hidden} more")
    return "  ·  ".join(parts)


def detail(finding: Finding) -> RenderableType:
    """Expected, observed, why it matters, remedy and evidence."""
    rows = [
        ("subject", Text(f"{clean(finding.subject)}  ({clean(finding.check_id)})")),
        (
            "waived",
            plain(f"until {finding.waived.expires}: {finding.waived.reason}" if finding.waived else ""),
        ),
        ("expected", plain(finding.expected)),
        ("observed", plain(finding.observed)),
        ("why", plain(finding.why)),
        *_remedy_rows(finding.remedy),
        *(("evidence", _reference(reference)) for reference in finding.evidence),
    ]
    headline = Text.assemble(status_text(finding.status), "  ", (clean(finding.summary), STRONG))
    return Group(headline, Text(), pairs([(name, value) for name, value in rows if value.plain]))


def _remedy_rows(remedy: Remedy | None) -> list[tuple[str, Text]]:
    if remedy is None:
        return []
    words = plain(remedy.text)
    if remedy.needs_root:
        words.append("  needs root", CAUTION)
    if not remedy.reversible:
        words.append("  cannot be undone", CAUTION)
    return [("remedy", words), ("command", Text(clean_block(remedy.command), style=CODE))]


def _reference(reference: EvidenceRef) -> Text:
    return Text.assemble(
        (f"{clean(reference.source)}  ", DIM), clean(reference.key), (f"  {clean(reference.detail)}", DIM)
    )


def remedy(finding: Finding) -> str:
    """What `y` copies: the command, or the words where there is no command; empty without a remedy."""
    if finding.remedy is None:
        return ""
    return clean_block(finding.remedy.command) or clean(finding.remedy.text)


def nothing(findings: Sequence[Finding], *, query: str, is_checking: bool) -> Text:
    """The list's empty state."""
    if is_checking:
        return plain("The checks are running.", DIM)
    if query:
        return Text.assemble("Nothing matches ", (clean(query), STRONG), ".\nesc clears the filter.")
    if not findings:
        return plain("No check has reported yet. r probes and checks again.", DIM)
    skipped = sum(finding.status is Status.SKIP for finding in findings)
    passed = sum(finding.status is Status.PASS for finding in findings)
    return Text.assemble(
        ("Nothing wrong was found.", STRONG),
        f"\n{passed} passed, {skipped} skipped because they do not apply to this machine. a shows them.",
    )
