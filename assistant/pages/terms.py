"""Define the terms: how each status is written, in which order, and the names of a finding's parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from assistant.pages.blocks import Tone, Words, words
from probes.base.record import T, Unknown
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Status

BADGE_WIDTH = 10


class StatusTerms(NamedTuple):
    """The words and the colour of a status."""

    status: Status
    glyph: str
    tone: Tone
    counted: str
    """Words behind a number of findings."""
    answer: str = ""
    """Statement about the machine in a verdict with this status."""

    @property
    def badge(self) -> Words:
        """Return glyph and word: colour is never the only signal."""
        return words((f"{self.glyph} {self.status.value}", self.tone))


STATUS = {
    terms.status: terms
    for terms in (
        StatusTerms(Status.FAIL, "✗", "bad", "failed", "is not fit to train"),
        StatusTerms(Status.WARN, "!", "caution", "warned", "is fit to train, with warnings"),
        StatusTerms(
            Status.UNKNOWN, "?", "odd", "could not be checked", "cannot be judged, as too little is known"
        ),
        StatusTerms(Status.PASS, "✓", "good", "passed", "is fit to train"),
        StatusTerms(Status.SKIP, "-", "dim", "skipped"),
    )
}
"""Problems first, in the order in which a person reads; a verdict ranks what is unknown above a warning."""


def counts(
    findings: Iterable[Finding], statuses: Iterable[Status] = tuple(STATUS), *, with_groups: bool = False
) -> list[tuple[str, Tone]]:
    """Return `2 failed (gpu, host)`, `120 passed`; waived findings are counted apart."""
    groups = {row.id: row.group for row in CHECKS} if with_groups else {}
    findings = list(findings)
    counting = [finding for finding in findings if finding.waived is None]
    result: list[tuple[str, Tone]] = []
    for status in statuses:
        same = [finding for finding in counting if finding.status is status]
        is_problem = with_groups and status in (Status.FAIL, Status.WARN)
        names = sorted({groups.get(finding.check_id, "other") for finding in same}) if is_problem else []
        where = f" ({', '.join(names)})" if names else ""
        result += [(f"{len(same)} {STATUS[status].counted}{where}", STATUS[status].tone)] if same else []
    waived = len(findings) - len(counting)
    return [*result, (f"{waived} waived", "dim")] if waived else result


def short(value: T | Unknown | None, how: Callable[[T], str] = str) -> str:
    """Return a value for narrow columns: `?` if it is unknown, `-` if there is none."""
    if isinstance(value, Unknown):
        return "?"
    return "-" if value is None else how(value)


def folded(indices: Sequence[int]) -> str:
    """Return `0-3,6` for 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
