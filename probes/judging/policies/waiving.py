"""Marks what the policy's waivers cover, and tells which of them cover nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

import msgspec

from probes.judging.findings import Finding, Status
from probes.judging.policies.policy import Waiver

_WAIVABLE = frozenset({Status.FAIL, Status.WARN, Status.UNKNOWN})


def waive(
    findings: Iterable[Finding], waivers: Sequence[Waiver], *, today: datetime.date | None
) -> tuple[Finding, ...]:
    """Return the findings; those that a waiver covers on this day are marked."""
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
        f"the waiver of {waiver.check} on {waiver.subject} covers nothing; remove it"
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
