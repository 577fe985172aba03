"""Deductions about the rank that parted from the others, from the reports of watchdogs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from probes.logs.deducing.common import deduced, named, who_calls
from probes.logs.event import Event, carries
from probes.logs.events.deduced_course_events import DeducedCollectivesDiffer, DeducedStragglers
from probes.logs.events.torch_events import (
    TorchDesyncCall,
    TorchDesyncPlace,
    TorchDesyncRank,
    TorchDumpSignal,
    TorchWatchdogTimeout,
    TorchWorkStatus,
)
from probes.logs.seen import Seen

_GROUP = re.compile(r"\[PG (?:ID )?(\S{1,40})(?: PG GUID (\S{1,80}))?")
_UNEVEN = ("ALLTOALL", "SEND", "RECV", "COALESCED", "GATHER", "SCATTER")
"""Collectives whose sizes may differ from rank to rank."""
_LINES_OF_PLACE = 16
"""Most kinds of calls that are listed for one number of the sequence."""


def collectives_differ(seen: Seen) -> Iterator[Event]:
    """Yield ranks that time out in different operations, or sizes, at the same number of the sequence."""
    at: dict[tuple[str, int], dict[int, Event[TorchWatchdogTimeout]]] = defaultdict(dict)
    groups = {
        (event.rank, event.what.seq): _group(event) for event in reversed(seen.of(TorchWorkStatus))
    }  # fmt: skip
    for event in seen.of(TorchWatchdogTimeout):
        rank, seq = event.rank, event.what.seq
        if rank is not None and seq is not None:
            at[_group(event) or groups.get((rank, seq), ""), seq].setdefault(rank, event)
    for (_, seq), events in sorted(at.items(), key=lambda item: item[0]):
        calls = {rank: event.what.op or "" for rank, event in events.items()}
        sizes = {rank: event.what.numel_in for rank, event in events.items()}
        first = next(iter(events.values()))
        if len(set(calls.values())) > 1:
            yield deduced(first, DeducedCollectivesDiffer(seq=seq, why=f"at number {seq} {who_calls(calls)}"))
            return
        if len(set(sizes.values()) - {None}) > 1 and not any(
            word in next(iter(calls.values())) for word in _UNEVEN
        ):
            words = who_calls({rank: f"{calls[rank]} of {size} elements" for rank, size in sizes.items()})
            yield deduced(first, DeducedCollectivesDiffer(seq=seq, why=f"at number {seq} {words}"))
            return


def stragglers(seen: Seen) -> Iterator[Event]:
    """Yield ranks that never enqueued the work for which others of their group waited in vain."""
    enqueued: dict[str, dict[int, int]] = defaultdict(dict)
    awaited: dict[str, Event[TorchWorkStatus]] = {}
    for event in seen.of(TorchWorkStatus, TorchDumpSignal):
        rank, last, group = event.rank, event.what.enqueued, _group(event)
        if rank is not None and last is not None:
            enqueued[group][rank] = last
        if carries(event, TorchWorkStatus) and (
            group not in awaited or event.what.seq > awaited[group].what.seq
        ):
            awaited[group] = event
    timeouts = {(event.rank, event.what.seq): event for event in seen.of(TorchWatchdogTimeout)}
    own = {event.rank: event for event in reversed(seen.of(TorchWatchdogTimeout))}
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


def desync(seen: Seen) -> Iterator[Event]:
    """Yield differences in torch's own report of a desynchronisation: different calls, or late ranks."""
    calls: dict[str, dict[str, Event[TorchDesyncCall]]] = defaultdict(dict)
    places = seen.of(TorchDesyncPlace)
    for event in seen.of(TorchDesyncCall):
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
        for late in seen.of(TorchDesyncRank):
            if late.what.state == state:
                op = "any collective" if late.what.seq is None else "collective"
                yield deduced(late, DeducedStragglers(names=late.what.ranks, op=op, seq=late.what.seq))
                return


def _waits_in(event: Event[TorchWatchdogTimeout]) -> str:
    """Return the collective in which only this rank waits, by its own timeout."""
    seq = f" number {event.what.seq}" if event.what.seq is not None else ""
    return f"rank {event.rank} timed out in {event.what.op or 'another collective'}{seq}"


def _group(event: Event) -> str:
    """Return the process group by its shared name, else by its number, which may differ by rank."""
    match = _GROUP.search(event.text)
    return (match[2] or match[1]) if match else ""


DEDUCTIONS = (collectives_differ, desync, stragglers)
