"""What NCCL warned of in a log of a job.

Words after which a run ends are a FAIL; others are followed by a slower way.
Source: NCCL's sources, 2.18 to 2.30; NCCL user guide, troubleshooting.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, events_of

JUDGE = Judge(
    check_id="nccl-warnings",
    why="What NCCL warns of ends the job, or lets it run far below the speed of the hardware.",
)

_FATAL = Remedy(text="Look at the first such line in time, on any rank: the others follow from it.")
_SLOW = Remedy(text="Compare with what the hardware offers: a slower way was taken.")


def check(evidence: Evidence) -> Iterator[Finding]:
    events = yield from events_of(JUDGE, evidence, "nccl-log")
    if events is None:
        return
    warnings = [event for event in events if event.kind == "nccl-warning"]
    for event in warnings:
        fatal = event.fatal is True
        say = JUDGE.failed if fatal else JUDGE.warned
        yield say(
            HOST,
            "NCCL failed" if fatal else "NCCL warns",
            expected="no warning",
            observed=f"{'once' if event.count == 1 else f'{event.count} times'}: {event.message}",
            remedy=_FATAL if fatal else _SLOW,
            evidence=event.evidence,
        )
    if not warnings:
        yield JUDGE.passed(HOST, "NCCL warns of nothing")
