"""What is sick, the worst first: of everything that is said about one part, one sentence leads and the others
follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from probes.judging.findings import Finding, Status
from probes.judging.reporting import HOST


class SickPart(NamedTuple):
    """A part of the machine that is slower than it should be, or wrong."""

    finding: Finding
    """The worst about it."""
    also: tuple[str, ...]
    """What else is said about it, without the cause that the first sentence names."""
    tells_remedy: bool
    """False where a part before has the same remedy."""


def sick_parts(findings: Iterable[Finding]) -> tuple[SickPart, ...]:
    """Failures before warnings, each in the order of the findings. Of the host and of ranks together
    everything leads.
    """
    counting = [finding for finding in findings if finding.waived is None]
    groups: dict[object, list[Finding]] = {}
    for status in (Status.FAIL, Status.WARN):
        for finding in counting:
            if finding.status is status:
                groups.setdefault(finding.subject if _is_part(finding.subject) else id(finding), []).append(
                    finding
                )
    parts, remedies = [], set()
    for first, *rest in groups.values():
        also = tuple(dict.fromkeys(_without_cause(finding.summary, first.summary) for finding in rest))
        parts.append(
            SickPart(first, also, tells_remedy=first.remedy is not None and first.remedy not in remedies)
        )
        remedies.add(first.remedy)
    return tuple(parts)


def _is_part(subject: str) -> bool:
    return subject != HOST and not subject.endswith((" rank", " ranks"))


def _without_cause(summary: str, first: str) -> str:
    cause = first.partition(": ")[2]
    return summary.removesuffix(f": {cause}") if cause else summary
