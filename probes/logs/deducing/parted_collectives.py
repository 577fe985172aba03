"""Which rank parted from the others, by what their watchdogs say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from probes.logs.deducing.common import found, named, who_calls, whole
from probes.logs.event import Event
from probes.logs.seen import Seen

_GROUP = re.compile(r"\[PG (?:ID )?(\S{1,40})(?: PG GUID (\S{1,80}))?")
_UNEVEN = ("ALLTOALL", "SEND", "RECV", "COALESCED", "GATHER", "SCATTER")
"""Whose sizes may differ from rank to rank."""
_LINES_OF_PLACE = 16
"""So many kinds of calls are listed under one number at most."""


def collectives_differ(seen: Seen) -> Iterator[Event]:
    """Ranks that time out in different operations, or in one of different sizes, at the same number of the
    sequence.
    """
    at: dict[tuple[str, int], dict[int, Event]] = defaultdict(dict)
    groups = {
        (_rank(event), whole(event.fields.get("seq"))): _group(event) for event in reversed(seen.of("torch.work-status"))
    }  # fmt: skip
    for event in seen.of("torch.watchdog-timeout"):
        rank, seq = _rank(event), whole(event.fields.get("seq"))
        if rank is not None and seq is not None:
            at[_group(event) or groups.get((rank, seq), ""), seq].setdefault(rank, event)
    for (_, seq), events in sorted(at.items(), key=lambda item: item[0]):
        calls = {rank: str(event.fields.get("op", "")) for rank, event in events.items()}
        sizes = {rank: event.fields.get("numel_in") for rank, event in events.items()}
        first = next(iter(events.values()))
        if len(set(calls.values())) > 1:
            yield found("collectives-differ", first, seq=seq, why=f"at number {seq} {who_calls(calls)}")
            return
        if len(set(sizes.values()) - {None}) > 1 and not any(
            word in next(iter(calls.values())) for word in _UNEVEN
        ):
            words = who_calls({rank: f"{calls[rank]} of {size} elements" for rank, size in sizes.items()})
            yield found("collectives-differ", first, seq=seq, why=f"at number {seq} {words}")
            return


def stragglers(seen: Seen) -> Iterator[Event]:
    """Ranks that never enqueued the work for which others of their group waited in vain."""
    enqueued: dict[str, dict[int, int]] = defaultdict(dict)
    awaited: dict[str, Event] = {}
    for event in seen.of("torch.work-status", "torch.dump-signal"):
        rank, last, seq = _rank(event), whole(event.fields.get("enqueued")), whole(event.fields.get("seq"))
        group = _group(event)
        if rank is not None and last is not None:
            enqueued[group][rank] = last
        if seq is not None and (group not in awaited or seq > (whole(awaited[group].fields.get("seq")) or 0)):
            awaited[group] = event
    timeouts = {(_rank(event), event.fields.get("seq")): event for event in seen.of("torch.watchdog-timeout")}
    own = {_rank(event): event for event in reversed(seen.of("torch.watchdog-timeout"))}
    for group, first in awaited.items():
        seq = whole(first.fields.get("seq")) or 0
        late = [rank for rank, last in sorted(enqueued[group].items()) if last < seq]
        if late:
            timeout = timeouts.get((_rank(first), seq), first)
            elsewhere = [event for rank, event in own.items() if rank in late]
            fields = {"late_in": _stands_in(elsewhere[0])} if elsewhere else {}
            op = str(timeout.fields.get("op", "collective"))
            yield found("stragglers", timeout, names=named(late), op=op, seq=seq, **fields)
            for event in elsewhere:
                yield found("stragglers", event, names=named(late), op=op, seq=seq)
            return


def desync(seen: Seen) -> Iterator[Event]:
    """What torch's own report of a desynchronisation says: different calls at one number, ranks that are
    late, or none.
    """
    calls: dict[str, dict[str, Event]] = defaultdict(dict)
    places = seen.of("torch.desync-place")
    for event in seen.of("torch.desync-call"):
        at = [
            place
            for place in places
            if place.source == event.source and 0 < event.number - place.number <= _LINES_OF_PLACE
        ]
        if at and at[-1].fields.get("state") == event.fields.get("state"):
            calls[str(at[-1].fields.get("seq"))].setdefault(str(event.fields.get("op")), event)
    for seq, ops in calls.items():
        if len(ops) > 1:
            words = ", ".join(f"ranks {event.fields.get('ranks')} call {op}" for op, event in ops.items())
            yield found(
                "collectives-differ", next(iter(ops.values())), seq=seq, why=f"at number {seq} {words}"
            )
            return
    for state in ("missing", "lag"):
        for event in seen.of("torch.desync-rank"):
            if event.fields.get("state") == state:
                fields = (
                    {"op": "collective", "seq": event.fields["seq"]}
                    if "seq" in event.fields
                    else {"op": "any collective"}
                )
                yield found("stragglers", event, names=str(event.fields.get("ranks", "")), **fields)
                return


def _rank(event: Event) -> int | None:
    return event.rank if event.rank is not None else whole(event.fields.get("rank"))


def _stands_in(event: Event) -> str:
    """What a rank waits for that others do not, by its own timeout."""
    seq = f" number {event.fields['seq']}" if "seq" in event.fields else ""
    return f"rank {_rank(event)} timed out in {event.fields.get('op', 'another collective')}{seq}"


def _group(event: Event) -> str:
    """The process group by the name that its ranks share, or else by its number, which other groups may have
    on other ranks.
    """
    match = _GROUP.search(event.text)
    return (match[2] or match[1]) if match else ""


DEDUCTIONS = (collectives_differ, desync, stragglers)
