"""Deductions about ranks that differ from the others, from watchdogs and dumps of flight recorders."""

import re
from collections import defaultdict
from collections.abc import Iterator

from probes.base.grouping import largest
from probes.logs.deducing.common import deduced, named, who_calls
from probes.logs.event import Event, carries
from probes.logs.events.deduced_course_events import DeducedCollectivesDiffer, DeducedStragglers
from probes.logs.events.flight_recorder_events import (
    TorchFlightRecorderEntry,
    TorchFlightRecorderGroup,
    TorchFlightRecorderStuck,
)
from probes.logs.events.torch_events import (
    TorchDesyncCall,
    TorchDesyncPlace,
    TorchDesyncRank,
    TorchDumpSignal,
    TorchWatchdogTimeout,
    TorchWorkStatus,
)
from probes.logs.logged_events import LoggedEvents

_GROUP = re.compile(r"\[PG (?:ID )?(\S{1,40})(?: PG GUID (\S{1,80}))?")
_LINES_OF_PLACE = 16
"""Maximum number of lines about calls that are read for one sequence number."""
_UNEVEN = ("all_to_all", "alltoall", "gather", "scatter", "coalesced", "send", "recv")
"""Collectives whose sizes may legitimately differ between ranks."""

_Calls = dict[int, tuple[Event, str, object]]
"""Event, operation and size of each rank at one sequence number."""


def collectives_differ(logged: LoggedEvents) -> Iterator[Event]:
    """Yield ranks whose calls time out at the same sequence number but differ in operation or size."""
    at: dict[tuple[str, int], _Calls] = defaultdict(dict)
    groups = {(event.rank, event.what.seq): _group(event) for event in reversed(logged.of(TorchWorkStatus))}
    for event in logged.of(TorchWatchdogTimeout):
        rank, seq, work = event.rank, event.what.seq, event.what
        if rank is not None and seq is not None:
            group = _group(event) or groups.get((rank, seq), "")
            at[group, seq].setdefault(rank, (event, work.op or "", work.numel_in))
    yield from _first_difference([(seq, calls) for (_, seq), calls in sorted(at.items())], " elements")


def dumps_differ(logged: LoggedEvents) -> Iterator[Event]:
    """Yield ranks whose calls at the same sequence number of a group differ in operation or size."""
    at: dict[tuple[int, str], _Calls] = defaultdict(dict)
    for event in logged.of(TorchFlightRecorderEntry):
        entry = event.what
        if event.rank is not None and entry.seq is not None:
            at[entry.seq, entry.group].setdefault(event.rank, (event, entry.op, entry.sizes))
    by_number = sorted(at.items(), key=lambda item: item[0][0])
    yield from _first_difference([(seq, calls) for (seq, _), calls in by_number], "")


def _first_difference(numbers: list[tuple[int, _Calls]], unit: str) -> Iterator[Event]:
    """Yield the first sequence number at which operations differ, or sizes of the same operation."""
    for seq, calls in numbers:
        operations = {rank: operation for rank, (_, operation, _) in calls.items()}
        sizes = {rank: size for rank, (_, _, size) in calls.items()}
        first, operation, _ = next(iter(calls.values()))
        if len(set(operations.values())) == 1:
            if len(set(sizes.values()) - {None}) < 2 or any(word in operation.lower() for word in _UNEVEN):
                continue
            operations = {rank: f"{operation} of {size}{unit}" for rank, size in sizes.items()}
        why = f"at number {seq} {who_calls(operations)}"
        yield deduced(first, DeducedCollectivesDiffer(seq=seq, why=why))
        return


def stragglers(logged: LoggedEvents) -> Iterator[Event]:
    """Yield ranks that never enqueued the collective for which other ranks of their group waited."""
    enqueued: dict[str, dict[int, int]] = defaultdict(dict)
    awaited: dict[str, Event[TorchWorkStatus]] = {}
    for event in logged.of(TorchWorkStatus, TorchDumpSignal):
        rank, last, group = event.rank, event.what.enqueued, _group(event)
        if rank is not None and last is not None:
            enqueued[group][rank] = last
        if carries(event, TorchWorkStatus) and (
            group not in awaited or event.what.seq > awaited[group].what.seq
        ):
            awaited[group] = event
    timeouts = {(event.rank, event.what.seq): event for event in logged.of(TorchWatchdogTimeout)}
    own = {event.rank: event for event in reversed(logged.of(TorchWatchdogTimeout))}
    for group, first in awaited.items():
        seq = first.what.seq
        late = [rank for rank, last in sorted(enqueued[group].items()) if last < seq]
        if late:
            timeout = timeouts.get((first.rank, seq))
            elsewhere = [event for rank, event in own.items() if rank in late]
            late_in = _waits_in(elsewhere[0]) if elsewhere else None
            op = (timeout.what.op if timeout is not None else None) or "collective"
            yield deduced(
                timeout or first, DeducedStragglers(names=named(late), op=op, seq=seq, late_in=late_in)
            )
            for other in elsewhere:
                yield deduced(other, DeducedStragglers(names=named(late), op=op, seq=seq))
            return


def desync(logged: LoggedEvents) -> Iterator[Event]:
    """Yield different calls, or late ranks, from torch's own report of a desynchronisation."""
    calls: dict[str, dict[str, Event[TorchDesyncCall]]] = defaultdict(dict)
    places = logged.of(TorchDesyncPlace)
    for event in logged.of(TorchDesyncCall):
        at = [
            place
            for place in places
            if place.source == event.source and 0 < event.number - place.number <= _LINES_OF_PLACE
        ]
        if at and at[-1].what.state == event.what.state:
            calls[str(at[-1].what.seq)].setdefault(event.what.op, event)
    for seq, ops in calls.items():
        if len(ops) > 1:
            words = ", ".join(f"ranks {event.what.ranks} call {op}" for op, event in ops.items())
            yield deduced(
                next(iter(ops.values())), DeducedCollectivesDiffer(seq=seq, why=f"at number {seq} {words}")
            )
            return
    for state in ("missing", "lag"):
        for late in logged.of(TorchDesyncRank):
            if late.what.state == state:
                op = "any collective" if late.what.seq is None else "collective"
                yield deduced(late, DeducedStragglers(names=late.what.ranks, op=op, seq=late.what.seq))
                return


def _waits_in(event: Event[TorchWatchdogTimeout]) -> str:
    """Return a phrase with the collective in which this rank waited, from its own timeout."""
    seq = f" number {event.what.seq}" if event.what.seq is not None else ""
    return f"rank {event.rank} timed out in {event.what.op or 'another collective'}{seq}"


def _group(event: Event) -> str:
    """Return the name of the process group; if unknown, its number, which may differ between ranks."""
    match = _GROUP.search(event.text)
    return (match[2] or match[1]) if match else ""


def behind(logged: LoggedEvents) -> Iterator[Event]:
    """Yield ranks whose dumps end before the collective in which other ranks of their group hang."""
    stuck = {(event.rank, event.what.group): event for event in logged.of(TorchFlightRecorderStuck)}
    awaited = largest(
        (group, seq) for (_, group), event in stuck.items() if (seq := event.what.seq) is not None
    )
    enqueued: dict[str, dict[int, int]] = defaultdict(dict)
    for state in logged.of(TorchFlightRecorderGroup):
        last = state.what.enqueued
        if state.rank is not None and last is not None:
            enqueued[state.what.group][state.rank] = last
    for group, ranks in enqueued.items():
        late = [
            rank for rank, last in sorted(ranks.items()) if last < awaited.get(group, max(ranks.values()))
        ]
        waiting = [
            stuck[rank, group] for rank in sorted(ranks) if rank not in late and (rank, group) in stuck
        ]
        if late and waiting:
            first = waiting[0]
            yield deduced(first, DeducedStragglers(names=named(late), op=first.what.op, seq=first.what.seq))
            return


DEDUCTIONS = (collectives_differ, desync, stragglers, dumps_differ, behind)
