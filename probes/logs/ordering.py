"""Order of the events of several sources, and the ranks of their processes."""

import heapq
from collections.abc import Iterable, Iterator

import msgspec

from probes.base.grouping import grouped
from probes.base.stamps import has_date
from probes.logs.event import Event
from probes.logs.events.nccl_events import NcclCommShape, NcclInitComplete, NcclInitStart

_MOST_PROCESSES = 1 << 17


class RankBook:
    """Rank of each process of each host; the rank is the rank in the largest communicator of the process."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, int], tuple[int, int | None]] = {}
        """Size of the communicator and the rank; None if a process has several ranks."""

    def add(self, event: Event) -> None:
        """Add an event; only events of the initialisation have an effect."""
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
        """Return the event's own rank, or else the rank of its process; None if both are unknown."""
        if event.rank is not None or event.host is None or event.pid is None:
            return event.rank
        return self._ranks.get((event.host, event.pid), (0, None))[1]


def with_ranks(events: Iterable[Event]) -> list[Event]:
    """Return the events, each with the rank of its process if any event reveals the rank."""
    known, book = [*events], RankBook()
    for event in known:
        book.add(event)
    return [
        event
        if event.rank is not None or (rank := book.rank_of(event)) is None
        else msgspec.structs.replace(event, rank=rank)
        for event in known
    ]


def merged(events: Iterable[Event]) -> list[Event]:
    """Return the events of several sources sorted by time; each source's events keep the order of lines.

    An event without a date follows the event before it in its source. Sources without any date come last, in
    the order in which they were read.
    """
    sources = grouped((event.source, event) for event in events)
    for of_source in sources.values():
        of_source.sort(key=lambda event: event.number)
    if len(sources) < 2:
        return [event for of_source in sources.values() for event in of_source]
    dated = {
        name: of_source
        for name, of_source in sources.items()
        if any(has_date(event.time_s) for event in of_source)
    }
    rows = list(dated.values())
    ordered = heapq.merge(*(_stamped(place, of_source) for place, of_source in enumerate(rows)))
    undated = [event for name, of_source in sources.items() if name not in dated for event in of_source]
    return [rows[place][number] for _, place, number in ordered] + undated


def _stamped(place: int, events: list[Event]) -> Iterator[tuple[float, int, int]]:
    """Yield time, source and number of each event; the time never decreases within a source."""
    first = next((event.time_s for event in events if has_date(event.time_s)), None)
    now = first or 0.0
    for number, event in enumerate(events):
        if has_date(event.time_s):
            now = max(now, event.time_s or 0.0)
        yield now, place, number
