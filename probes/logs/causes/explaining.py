"""Explain why a run failed: list the causes of its events, root causes before their effects.

Rows of `probes/data/causes.toml` name the events of a cause; `probes/logs/deductions.py` adds events that
only several lines together reveal. A cause is reported only if its events are in the logs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from probes.base.record import Record
from probes.logs.cause_rows import Cause, Pattern, load_causes
from probes.logs.causes.conditions import CONDITIONS
from probes.logs.chains import with_chains
from probes.logs.deductions import deduce
from probes.logs.diagnosis import Diagnosis, EvidenceLine, Explanation, State
from probes.logs.event import Event, carries, is_clearly_later
from probes.logs.events.compared_events import MachineCheck
from probes.logs.events.kernel_log_events import KernelUnread
from probes.logs.events.log_record import field_of
from probes.logs.events.measurement_events import NcclTestsSummary
from probes.logs.events.nccl_events import NcclCommShape, NcclConnected, NcclInitComplete
from probes.logs.events.process_events import ProgramFinished
from probes.logs.events.torch_events import TorchException
from probes.logs.failure_facts import with_failures
from probes.logs.healthy import ends_midway, healthy_summary
from probes.logs.logged_events import LoggedEvents
from probes.logs.own_failure import OwnFailure, own_failure
from probes.logs.recovered import without_recovered
from probes.logs.wording import begun, command_for, filled

MOST_DIAGNOSES = 5
MOST_LINES_OF_EVIDENCE = 8
_EFFECT_KEEPS = 0.4
"""Factor that lowers the confidence of an effect if its cause is known."""
_EXPLAINS = 0.5
"""Minimum confidence at which a cause, even one that is not a fault, explains a failure event."""
_SUSPICIONS = ("hang-after-init", "p2p-broken")
"""Causes that the early end of a log may suggest alone, without a failure event."""
_ENDS = re.compile(r"ChildFailed|SignalException|CalledProcess|ProcessExited|ProcessRaised")
_KINDS_OF_ENDS = ("torch.child-failed", "torch.worker-failed", "torch.agent-signal", "process.interrupted")
_UNKNOWN = "unknown"
_CLEARER = ("cuda.error", "nccl.cuda-error", "cuda.assert")
"""Kinds that describe a program's own failure better than its last exception."""
_MOST_REQUESTS = 6


class _Candidate(Record, kw_only=True):
    """A cause whose events are in the logs."""

    row: Cause
    pattern: Pattern
    confidence: float
    is_fault: bool
    events: tuple[Event, ...]
    own: int
    """Number of events that match the pattern itself; they come first in `events`."""

    @property
    def first(self) -> Event:
        return self.events[0]

    @property
    def lines(self) -> Iterator[tuple[str, int]]:
        """Yield the source and the line number of each line that supports the cause."""
        return ((event.source, event.number) for event in self.events)

    @property
    def evidence(self) -> tuple[Event, ...]:
        """Return the events to display: first those that match the pattern, then those of its condition."""
        others = self.events[self.own :][: MOST_LINES_OF_EVIDENCE - 1]
        return (*self.events[: self.own][: MOST_LINES_OF_EVIDENCE - len(others)], *others)


def explain(
    events: Iterable[Event],
    facts: Mapping[str, object] | None = None,
    *,
    last_lines: Mapping[str, int] | None = None,
    beside: Iterable[Event] = (),
) -> Explanation:
    """Return the state of the run and the causes that the events reveal: faults first, by confidence.

    `facts` come from `probes/logs/facts.py`. `last_lines` contains the number of the last line that the
    program itself wrote into each source; it shows whether a log ends after the initialisation or continues
    with unknown lines. `beside` contains facts of the machine and the recipe, which support causes but are
    not causes themselves. The caller adds the names of the logs and their number of lines.
    """
    read = [*events]
    kept = with_chains(without_recovered(read, last_lines or {}))
    logged = LoggedEvents(kept, last_lines, beside)
    logged.add(deduce(logged))
    candidates = _without_vague(
        [candidate for row in load_causes().cause if (candidate := _candidate(row, logged)) is not None]
    )
    faults = [candidate for candidate in candidates if candidate.is_fault]
    own = own_failure(logged, {line for each in candidates if each.row.id != _UNKNOWN for line in each.lines})
    effects = [candidate for candidate in faults if own is not None and _follows(candidate, own)]
    diagnoses = _ranked(
        candidates, logged, effects if own is not None and len(effects) == len(faults) else []
    )
    summary, expected = healthy_summary(logged)
    state: State
    collects = False
    from_outside = [each for each in diagnoses if each.cause_id == _UNKNOWN]
    known = [each for each in diagnoses if each.cause_id != _UNKNOWN]
    if own is not None and len(effects) == len(faults):
        state = "fault"
        diagnoses = [_own_diagnosis(own, effects), *known]
    elif faults:
        state = "fault"
        others = [event for event in _failures(logged) if not _is_an_end(event)]
        if diagnoses[0].cause_id == _UNKNOWN and diagnoses[0].confidence < _EXPLAINS and others:
            collects, diagnoses = True, [_unknown(others, logged, is_fault=True), *diagnoses[1:]]
    elif unexplained := _unexplained(logged, candidates):
        others = [event for event in unexplained if not _is_an_end(event)]
        if from_outside and not others:
            state, diagnoses = "unknown", [*from_outside, *known]
        else:
            failures = others or unexplained
            failed = any(event.kind not in load_causes().complaints for event in failures)
            collects, diagnoses = True, [_unknown(failures, logged, is_fault=failed), *diagnoses]
            state = "fault" if failed else "unknown"
    elif from_outside:
        state, diagnoses = "unknown", [*from_outside, *known]
    elif _is_unread(read) or any(candidate.pattern.doubt for candidate in candidates):
        state, collects = "unknown", True
        diagnoses = [*diagnoses, *_unread(read, logged)]
    elif ends_midway(logged) or (diagnoses and diagnoses[0].cause_id in _SUSPICIONS):
        state, collects = "unknown", True
        diagnoses = [*diagnoses, _healthy(summary, logged)]
    else:
        state = "healthy"
        diagnoses = sorted(
            [*diagnoses, _healthy(summary, logged)], key=lambda diagnosis: -diagnosis.confidence
        )
    return Explanation(
        state=state,
        diagnoses=tuple(diagnoses[:MOST_DIAGNOSES]),
        facts={**(facts or {})} if len(kept) == len(read) else with_failures({**(facts or {})}, kept),
        expected=expected,
        collect_next=to_collect(logged) if collects else (),
    )


def _without_vague(candidates: list[_Candidate]) -> list[_Candidate]:
    """Return the candidates; leave out the cause `unknown` if a known cause explains the end of the run."""
    if any(candidate.is_fault and not candidate.row.symptom for candidate in candidates):
        return [candidate for candidate in candidates if candidate.row.id != _UNKNOWN]
    return candidates


def _failures(logged: LoggedEvents) -> list[Event]:
    return logged.in_order(logged.of(*load_causes().failures))


def _unexplained(logged: LoggedEvents, candidates: list[_Candidate]) -> list[Event]:
    """Return evidence of failure that no cause explains.

    A line that only complains counts as explained if any cause is certain enough. Another failure event is
    explained only if its own line supports such a cause.
    """
    sure = [candidate for candidate in candidates if candidate.confidence >= _EXPLAINS]
    lines = {line for candidate in sure for line in candidate.lines}
    complaints = load_causes().complaints
    return [
        event
        for event in _failures(logged)
        if not (sure if event.kind in complaints else (event.source, event.number) in lines)
    ]


def _follows(candidate: _Candidate, own: OwnFailure) -> bool:
    """Return whether the fault is a report of peers or launchers after a program's own failure."""
    if candidate.row.symptom:
        return candidate.first.kind not in _CLEARER
    own_events = candidate.events[: candidate.own]
    of_peers = load_causes().of_peers
    return own.is_placed and all(event.kind in of_peers and own.is_before(event) for event in own_events)


def _is_an_end(event: Event) -> bool:
    """Return whether the event only reports, in a launcher's or scheduler's words, that a process ended."""
    if carries(event, TorchException):
        return _ENDS.search(event.what.name) is not None
    return event.kind.startswith(("slurm.", "mpi.")) or event.kind in _KINDS_OF_ENDS


def _candidate(row: Cause, logged: LoggedEvents) -> _Candidate | None:
    """Return the cause with its strongest pattern; None if no pattern matches events."""
    best: _Candidate | None = None
    for pattern in row.pattern:
        if best is not None and pattern.confidence <= best.confidence:
            continue
        events = _evidence(pattern, logged)
        if events:
            best = _Candidate(
                row=row,
                pattern=pattern,
                confidence=pattern.confidence,
                is_fault=row.fault if pattern.fault is None else pattern.fault,
                events=tuple(events),
                own=len(logged.matching(pattern)),
            )
    return best


def _evidence(pattern: Pattern, logged: LoggedEvents) -> list[Event]:
    """Return the events that support a pattern; the events that match the pattern come first.

    The result is empty if the pattern is not met.
    """
    main = logged.matching(pattern)
    if not main:
        return []
    support: list[Event] = []
    if pattern.machine:
        failed_checks = [event for event in logged.of(MachineCheck) if event.what.check in pattern.machine]
        if not failed_checks:
            return []
        support.append(logged.in_order(failed_checks)[0])
    if pattern.when:
        condition = CONDITIONS.get(pattern.when)
        events = None if condition is None else condition(logged)
        if events is None:
            return []
        support += events
    return main + [event for event in support if event not in main]


def _ranked(candidates: list[_Candidate], logged: LoggedEvents, of_own: list[_Candidate]) -> list[Diagnosis]:
    """Return diagnoses: faults first, then sorted by confidence and time.

    Effects of other causes, and the candidates in `of_own`, have a lower confidence. `of_own` contains the
    effects of the program's own failure.
    """
    effects = {id(candidate): _causes_of(candidate, candidates) for candidate in candidates}
    order = {id(event): place for place, event in enumerate(logged.in_order(logged.events))}

    def confidence(candidate: _Candidate) -> float:
        return candidate.confidence * (
            _EFFECT_KEEPS if effects[id(candidate)] or candidate in of_own else 1.0
        )

    ranked = sorted(
        candidates, key=lambda each: (not each.is_fault, -confidence(each), order.get(id(each.first), 0))
    )
    return [
        _diagnosis(
            cause,
            confidence(cause),
            [other for other in candidates if any(cause is root for root in effects[id(other)])],
        )
        for cause in ranked
    ]


def _causes_of(candidate: _Candidate, candidates: list[_Candidate]) -> list[_Candidate]:
    """Return the other candidates that caused this candidate."""
    return [
        other
        for other in candidates
        if other is not candidate
        and other.is_fault
        and _brings_about(other, candidate)
        and not is_clearly_later(other.first, candidate.first)
        and other.confidence >= min(0.4, candidate.confidence)
    ]


def _brings_about(cause: _Candidate, effect: _Candidate) -> bool:
    if not cause.row.symptom:
        return effect.row.symptom or effect.row.id in cause.row.effects
    if effect.pattern.root:
        return False
    return effect.row.id in cause.row.effects or (cause.pattern.root and effect.row.symptom)


def _diagnosis(candidate: _Candidate, confidence: float, effects: list[_Candidate]) -> Diagnosis:
    row, first = candidate.row, candidate.first
    own = candidate.events[: candidate.own]
    times = sum(event.count for event in own)
    words = filled(
        candidate.pattern.summary or row.summary, candidate.evidence, {"times": times} if times > 1 else {}
    )
    return Diagnosis(
        cause_id=row.id,
        confidence=round(confidence, 3),
        summary=f"{begun(words).rstrip('.')}{_where(first, own)}.",
        remedy=filled(candidate.pattern.remedy or row.remedy, candidate.evidence, {}, parts=False),
        command=command_for(candidate.pattern.command or row.command, candidate.evidence),
        is_fault=candidate.is_fault,
        secondary=tuple(
            f"{effect.row.title}{_where(effect.first, effect.events[: effect.own])}" for effect in effects
        ),
        evidence=tuple(evidence_line(event) for event in candidate.evidence),
        source=row.source,
        versions=row.versions,
    )


def evidence_line(event: Event) -> EvidenceLine:
    """Return the line from which an event was read."""
    return EvidenceLine(
        source=event.source,
        line=event.number,
        text=event.text,
        host=event.host,
        rank=event.rank,
        time_s=event.time_s,
    )


def _where(first: Event, events: tuple[Event, ...]) -> str:
    """Return the place in words: " (first on host-a, rank 3; seen on 8 ranks of 2 hosts)"."""
    ranks = {event.rank for event in events if event.rank is not None}
    hosts = {event.host for event in events if event.host is not None}
    place = ", ".join(
        [
            *([first.host] if first.host is not None else []),
            *([f"rank {first.rank}"] if first.rank is not None else []),
        ]
    )
    if not place:
        return ""
    many = [f"{len(ranks)} ranks"] * (len(ranks) > 1) + [f"{len(hosts)} hosts"] * (len(hosts) > 1)
    return f" (first on {place}; seen on {' of '.join(many)})" if many else f" (on {place})"


def _own_diagnosis(own: OwnFailure, effects: list[_Candidate]) -> Diagnosis:
    """Return the diagnosis of a program's own exception, which caused all other faults."""
    known = [candidate for candidate in effects if candidate.row.id != _UNKNOWN]
    secondary = tuple(
        f"{effect.row.title}{_where(effect.first, effect.events[: effect.own])}" for effect in known
    )
    return own.diagnosis(secondary, evidence_line, _where(own.event, (own.event, *own.others)))


def _unknown(failures: list[Event], logged: LoggedEvents, *, is_fault: bool) -> Diagnosis:
    row = load_causes().find("unknown")
    first = failures[0]
    texts = (field_of(first.what, name) for name in ("message", "reason", "text"))
    reason = str(next(filter(None, texts), first.text)).strip()
    return Diagnosis(
        cause_id="unknown",
        confidence=0.3,
        summary=f"{row.summary.rstrip('.')}: {reason[:200]}{_where(first, tuple(failures))}.",
        remedy=" ".join(to_collect(logged)) or row.remedy,
        is_fault=is_fault,
        evidence=tuple(evidence_line(event) for event in failures[:MOST_LINES_OF_EVIDENCE]),
        source=row.source,
    )


def _is_unread(events: list[Event]) -> bool:
    """Return whether all events are kernel lines that mention trouble, or ends of programs.

    Such events prove neither a fault nor a healthy run.
    """
    return bool(events) and all(carries(event, KernelUnread, ProgramFinished) for event in events)


def _unread(events: list[Event], logged: LoggedEvents) -> list[Diagnosis]:
    lines = logged.of(KernelUnread) if _is_unread(events) else []
    words = "The logs contain lines that mention trouble, but rigtune understands none of them"
    return [
        msgspec.structs.replace(
            _unknown([first, *lines[1:]], logged, is_fault=False), summary=f"{words}: {first.what.message}"
        )
        for first in lines[:1]
    ]


def _healthy(summary: str, logged: LoggedEvents) -> Diagnosis:
    row = load_causes().find("healthy")
    signs = logged.of(NcclInitComplete, NcclConnected, NcclTestsSummary, NcclCommShape)[
        :MOST_LINES_OF_EVIDENCE
    ]
    return Diagnosis(
        cause_id="healthy",
        confidence=0.6 if signs else 0.36,
        summary=summary or row.summary,
        remedy=row.remedy,
        is_fault=False,
        evidence=tuple(evidence_line(event) for event in signs),
        source=row.source,
    )


def to_collect(logged: LoggedEvents) -> tuple[str, ...]:
    """Return the data to collect, the most useful first."""
    texts: list[str] = []
    for row in load_causes().collect:
        events = logged.in_order(logged.of(*row.when))
        if (row.when and not events) or (row.unless and logged.has(*row.unless)):
            continue
        texts.append(filled(row.text, events))
    return tuple(texts[:_MOST_REQUESTS])
