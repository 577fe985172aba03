"""Deductions about the rank that parted from the others, from dumps of flight recorders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from probes.logs.deducing.common import deduced, named, who_calls
from probes.logs.event import Event
from probes.logs.events.deduced_course_events import DeducedCollectivesDiffer, DeducedStragglers
from probes.logs.events.flight_recorder_events import (
    TorchFlightRecorderEntry,
    TorchFlightRecorderGroup,
    TorchFlightRecorderStuck,
)
from probes.logs.seen import Seen

_UNEVEN = ("all_to_all", "alltoall", "gather", "scatter", "coalesced", "send", "recv")
"""Collectives whose sizes may differ from rank to rank."""


def dumps_differ(seen: Seen) -> Iterator[Event]:
    """Yield ranks that called different operations, or sizes, at the same number of a group's sequence."""
    at: dict[tuple[str, int], dict[int, Event[TorchFlightRecorderEntry]]] = defaultdict(dict)
    for event in seen.of(TorchFlightRecorderEntry):
        seq = event.what.seq
        if event.rank is not None and seq is not None:
            at[event.what.group, seq].setdefault(event.rank, event)
    for (_, seq), events in sorted(at.items(), key=lambda item: item[0][1]):
        calls = {rank: event.what.op for rank, event in sorted(events.items())}
        first = next(iter(events.values()))
        if len(set(calls.values())) > 1:
            yield deduced(first, DeducedCollectivesDiffer(seq=seq, why=f"at number {seq} {who_calls(calls)}"))
            return
        sizes = {rank: event.what.sizes for rank, event in sorted(events.items())}
        if len(set(sizes.values()) - {None}) > 1 and not any(
            word in next(iter(calls.values())) for word in _UNEVEN
        ):
            words = who_calls({rank: f"{calls[rank]} of {size}" for rank, size in sizes.items()})
            yield deduced(first, DeducedCollectivesDiffer(seq=seq, why=f"at number {seq} {words}"))
            return


def behind(seen: Seen) -> Iterator[Event]:
    """Yield ranks whose dumps end before the collective in which others of their group hang."""
    stuck = {(event.rank, event.what.group): event for event in seen.of(TorchFlightRecorderStuck)}
    awaited: dict[str, int] = {}
    for (_, group), event in stuck.items():
        if (seq := event.what.seq) is not None:
            awaited[group] = max(seq, awaited.get(group, seq))
    enqueued: dict[str, dict[int, int]] = defaultdict(dict)
    for state in seen.of(TorchFlightRecorderGroup):
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


DEDUCTIONS = (dumps_differ, behind)
