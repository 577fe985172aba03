"""Ranks of processes. NCCL names the rank at the initialisation only; later lines have host and process."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from probes.logs.event import Event
from probes.logs.events.nccl_init_events import NcclCommShape, NcclInitComplete, NcclInitStart

_MOST_PROCESSES = 1 << 17


class RankBook:
    """Ranks by host and process, of the largest communicator that a process is in."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, int], tuple[int, int | None]] = {}
        """Size of the communicator and the rank; None where one process has several."""

    def add(self, event: Event) -> None:
        """Add an event; kinds that are not of the initialisation are ignored."""
        record = event.what
        if (
            not isinstance(record, (NcclInitStart, NcclInitComplete, NcclCommShape))
            or event.host is None
            or event.pid is None
        ):
            return
        rank, ranks = record.rank, record.ranks
        process = (event.host, event.pid)
        size, known = self._ranks.get(process, (0, None))
        if ranks > size:
            if size or len(self._ranks) < _MOST_PROCESSES:
                self._ranks[process] = (ranks, rank)
        elif ranks == size and known != rank:
            self._ranks[process] = (size, None)

    def rank_of(self, event: Event) -> int | None:
        """Return the rank that the event names, else that of its process; None where both are unknown."""
        if event.rank is not None or event.host is None or event.pid is None:
            return event.rank
        return self._ranks.get((event.host, event.pid), (0, None))[1]


def with_ranks(events: Iterable[Event]) -> list[Event]:
    """Return the events, each with the rank of its process if any event of the process names it."""
    known, book = [*events], RankBook()
    for event in known:
        book.add(event)
    return [
        event
        if event.rank is not None or (rank := book.rank_of(event)) is None
        else msgspec.structs.replace(event, rank=rank)
        for event in known
    ]
