"""Check that all inputs could be read and that the sources agree.

An input that could not be read is missing from the facts, and if two sources contradict each other, one of
them is wrong. Source: the collectors' own notes (`MachineFacts.unread` and `.contradictions`).
"""

from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, EvidenceRef, quoted
from probes.facts import Contradiction, Unread
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, fold_names

READABLE = Judge(
    check_id="input-readable", why="What could not be read is not judged, and may contain a fault."
)
AGREEMENT = Judge(
    check_id="input-agreement",
    why="One of the sources is wrong, outdated, or from another machine, and results based on this source "
    "are wrong.",
)
_LIVE = "live"
_SHOWN = 3


def input_readable(evidence: Evidence) -> Iterator[Finding]:
    """Yield one finding for each file or command that could not be read."""
    by_source = grouped((unread.source, unread) for unread in evidence.facts.unread)
    for source, lines in by_source.items():
        more = f", and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        yield READABLE.warned(
            HOST,
            f"a part of {source or 'the input'} could not be read",
            expected="text in a form that rigtune can read",
            observed="; ".join(map(_words, lines[:_SHOWN])) + more,
            remedy=Remedy(text="Copy the whole output again, without edits; the readable part was used."),
            evidence=tuple(
                EvidenceRef(source="paste", key=source, detail=_place(line)) for line in lines[:_SHOWN]
            ),
        )
    if not by_source:
        yield _without_problem(READABLE, evidence, "all inputs could be read")


def input_agreement(evidence: Evidence) -> Iterator[Finding]:
    """Yield one finding for all devices whose sources differ in the same fields.

    Grouping keeps the report short if files come from two machines, because these differ in most fields.
    """
    by_subject = grouped((conflict.subject, conflict) for conflict in evidence.facts.contradictions)
    alike = grouped(
        (tuple(dict.fromkeys(conflict.field for conflict in conflicts)), subject)
        for subject, conflicts in by_subject.items()
    )
    for fields, subjects in alike.items():
        more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
        first = by_subject[subjects[0]]
        whose = f"{subjects[0]}: " if len(subjects) > 1 else ""
        conflicts = [conflict for subject in subjects for conflict in by_subject[subject]]
        yield AGREEMENT.warned(
            fold_names(subjects),
            f"the sources contradict each other about {', '.join(fields[:_SHOWN]).replace('_', ' ')}{more}",
            expected="one value",
            observed=whose
            + "; ".join(_readings(conflict, named=len(first) > 1) for conflict in first[:_SHOWN]),
            remedy=Remedy(
                text="Provide outputs that were taken from one machine at the same time; rigtune used the "
                "first value."
            ),
            evidence=tuple(
                dict.fromkeys(reading.evidence for conflict in conflicts for reading in conflict.readings)
            ),
        )
    if not evidence.facts.contradictions:
        yield _without_problem(AGREEMENT, evidence, "the sources agree")


def _without_problem(judge: Judge, evidence: Evidence, words: str) -> Finding:
    if evidence.facts.source == _LIVE:
        return judge.skipped(HOST, "the machine itself was read")
    if not evidence.facts.source:
        return judge.undetermined(HOST, NOT_RECORDED, what="the sources of the facts")
    return judge.passed(HOST, words, observed=evidence.facts.source)


def _readings(conflict: Contradiction, *, named: bool) -> str:
    values = " but ".join(
        f"{reading.value} ({reading.evidence.key or reading.evidence.source})"
        for reading in conflict.readings
    )
    name = f"{conflict.field.replace('_', ' ')} " if named else ""
    return name + (values or "values that were not recorded")


def _words(unread: Unread) -> str:
    text = f" {quoted(unread.text.strip())}" if unread.text.strip() else ""
    place = _place(unread)
    return f"{place}{text}: {unread.why}" if place or text else unread.why


def _place(unread: Unread) -> str:
    return f"line {unread.line}" if unread.line > 0 else ""
