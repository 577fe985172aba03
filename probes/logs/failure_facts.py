"""Facts of failures: the first failure, and the failed ranks in order."""

import functools
from collections.abc import Iterable

from probes.logs.cause_rows import EventPattern, load_causes
from probes.logs.event import Event
from probes.logs.logged_events import meets
from probes.logs.ordering import RankBook

_ALSO = ("kernel.xid",)
"""Kinds of events that are also failures, but whose cause depends on a number in the event."""
_FAILS_ALONE = 0.6
"""Minimum confidence of a fault's pattern at which a single matching event counts as a failure."""
_MOST_RANKS = 4096
_MOST_RANKS_LISTED = 32


class FailureFacts:
    """The first failure of the run and of each rank, collected event by event.

    Of two failures with times, the earlier is the first; otherwise, the failure that was read first. The list
    of failed ranks is sorted by time only if all failures have a time.
    """

    def __init__(self) -> None:
        self._first: Event | None = None
        self._earliest_s: float | None = None
        self._book = RankBook()
        self._by_rank: dict[tuple[str, str | int], Event] = {}
        """First failures by rank, or by process if the rank is not known yet."""

    def add(self, event: Event) -> None:
        """Add an event of any kind."""
        self._book.add(event)
        if event.time_s is not None:
            self._earliest_s = (
                event.time_s if self._earliest_s is None else min(event.time_s, self._earliest_s)
            )
        if not is_failure(event):
            return
        if self._first is None or _is_earlier(event, self._first):
            self._first = event
        key = ("rank", event.rank) if event.rank is not None else (event.host or "", event.pid or 0)
        known = self._by_rank.get(key)
        if (known is None and len(self._by_rank) < _MOST_RANKS) or (
            known is not None and _is_earlier(event, known)
        ):
            self._by_rank[key] = event

    def as_dict(self) -> dict[str, object]:
        """Return `first_failure` and `failed_ranks`, if anything failed."""
        event = self._first
        if event is None:
            return {}
        first_failure = {
            "kind": event.kind,
            "host": event.host,
            "rank": self._book.rank_of(event),
            "source": event.source,
            "line": event.number,
            "after_s": self._after_s(event),
        }
        events = [*self._by_rank.values()]
        if all(failure.time_s is not None for failure in events):
            events.sort(key=lambda failure: failure.time_s or 0.0)
        ranks = dict.fromkeys(rank for failure in events if (rank := self._book.rank_of(failure)) is not None)
        return {
            "first_failure": {name: value for name, value in first_failure.items() if value is not None},
            "failed_ranks": [*ranks][:_MOST_RANKS_LISTED],
        }

    def _after_s(self, event: Event) -> float | None:
        """Return the seconds since the first event with a time; None if no earlier event has a time."""
        if event.time_s is None or self._earliest_s is None or event.time_s <= self._earliest_s:
            return None
        return round(event.time_s - self._earliest_s, 3)


def with_failures(facts: dict[str, object], events: Iterable[Event]) -> dict[str, object]:
    """Return the facts, in which only the given events count as failures."""
    failures = FailureFacts()
    for event in events:
        failures.add(event)
    others = {name: value for name, value in facts.items() if name not in ("first_failure", "failed_ranks")}
    return {**others, **failures.as_dict()}


def is_failure(event: Event) -> bool:
    """Return whether an event is evidence of a failure by itself."""
    failures, patterns = _failures()
    kind = event.kind
    return kind in failures or any(meets(event.what, pattern.where) for pattern in patterns.get(kind, ()))


@functools.lru_cache(maxsize=1)
def _failures() -> tuple[frozenset[str], dict[str, list[EventPattern]]]:
    """Return the kinds that are always failures, and patterns for failures among the other kinds."""
    table = load_causes()
    patterns: dict[str, list[EventPattern]] = {}
    for row in table.cause:
        for pattern in row.pattern:
            is_fault = row.fault if pattern.fault is None else pattern.fault
            if is_fault and pattern.is_alone and pattern.confidence >= _FAILS_ALONE:
                for kind in pattern.event.split("|"):
                    patterns.setdefault(kind, []).append(pattern)
    return frozenset((*table.failures, *_ALSO)), patterns


def _is_earlier(event: Event, than: Event) -> bool:
    return event.time_s is not None and than.time_s is not None and event.time_s < than.time_s
