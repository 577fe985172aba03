"""Order of events of several files and hosts: by time where they have one."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from probes.logs.event import Event
from probes.logs.stamps import has_date


def merged(events: Iterable[Event]) -> list[Event]:
    """Return the events of several sources by time, each source in the order of its lines.

    Events of a whole file come after its lines. An event without a time follows the event before it in its
    source. Sources without any date come last, in the order in which they were read.
    """
    sources: dict[str, list[Event]] = {}
    for event in events:
        sources.setdefault(event.source, []).append(event)
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
    """Return time, source and number of each event; time never runs back within a source."""
    first = next((event.time_s for event in events if has_date(event.time_s)), None)
    now = first or 0.0
    for number, event in enumerate(events):
        if has_date(event.time_s):
            now = max(now, event.time_s or 0.0)
        yield now, place, number
