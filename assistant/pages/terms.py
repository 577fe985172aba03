"""Define how each status is written, the order of the statuses, and the names of a finding's parts."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from assistant.pages.blocks import Tone, Words, words
from probes.base.record import T, Unknown
from probes.judging.findings import Finding, Status

BADGE_WIDTH = 10

Key = TypeVar("Key")


class StatusTerms(NamedTuple):
    """The words and the colour of a status."""

    status: Status
    glyph: str
    tone: Tone
    counted: str
    """Words that follow a number of findings, as in `2 failed`."""
    answer: str = ""
    """Statement about the machine in a verdict with this status."""

    @property
    def badge(self) -> Words:
        """Glyph and word of the status; both are shown because colour must not be the only signal."""
        return words((f"{self.glyph} {self.status.value}", self.tone))


STATUS = {
    terms.status: terms
    for terms in (
        StatusTerms(Status.FAIL, "✗", "bad", "failed", "is not fit to train"),
        StatusTerms(Status.WARN, "!", "caution", "warned", "is fit to train, with warnings"),
        StatusTerms(
            Status.UNKNOWN, "?", "odd", "could not be checked", "cannot be judged: too little is known"
        ),
        StatusTerms(Status.PASS, "✓", "good", "passed", "is fit to train"),
        StatusTerms(Status.SKIP, "-", "dim", "skipped"),
    )
}
"""The terms in the order in which they are shown to people: problems first.

A verdict ranks UNKNOWN above WARN.
"""


def counts(
    findings: Iterable[Finding], statuses: Iterable[Status] = tuple(STATUS), *, with_groups: bool = False
) -> list[tuple[str, Tone]]:
    """Return `2 failed (gpu, host)`, `120 passed`; waived findings are counted separately."""
    from probes.judging.check_table import CHECKS  # noqa: PLC0415 - most pages name no groups

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
    """Return a value for narrow columns: `?` for an unknown value, `-` for no value."""
    if isinstance(value, Unknown):
        return "?"
    return "-" if value is None else how(value)
