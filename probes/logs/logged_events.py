"""The events of all logs, with a search by kind and by the conditions of patterns."""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from probes.logs.cause_rows import Condition, EventPattern
from probes.logs.event import Event
from probes.logs.events.log_record import LogRecord, Value, field_of, kind_of

A = TypeVar("A", bound=LogRecord)
B = TypeVar("B", bound=LogRecord)
C = TypeVar("C", bound=LogRecord)
D = TypeVar("D", bound=LogRecord)

_COMPARISONS = (">=", "<=", ">", "<")


class LoggedEvents:
    """Events in the order in which they were read."""

    def __init__(
        self,
        events: Iterable[Event],
        last_lines: Mapping[str, int] | None = None,
        beside: Iterable[Event] = (),
    ) -> None:
        """Index the events.

        `last_lines` contains the number of the last line that the program itself wrote into each source, if
        known. Events in `beside` come from outside the logs: a search by kind includes them, but they have no
        place in the order.
        """
        self.last_lines = dict(last_lines or {})
        self.events: list[Event] = []
        self._by_kind: dict[str, list[Event]] = defaultdict(list)
        self._place: dict[int, int] = {}
        self.add(events)
        for event in beside:
            self._place[id(event)] = -1
            self._by_kind[event.kind].append(event)

    def add(self, events: Iterable[Event]) -> None:
        """Add events after the existing events."""
        for event in events:
            self._place[id(event)] = len(self.events)
            self.events.append(event)
            self._by_kind[event.kind].append(event)

    @overload
    def of(self, a: type[A], /) -> list[Event[A]]: ...
    @overload
    def of(self, a: type[A], b: type[B], /) -> list[Event[A | B]]: ...
    @overload
    def of(self, a: type[A], b: type[B], c: type[C], /) -> list[Event[A | B | C]]: ...
    @overload
    def of(self, a: type[A], b: type[B], c: type[C], d: type[D], /) -> list[Event[A | B | C | D]]: ...
    @overload
    def of(self, *kinds: str | type[LogRecord]) -> list[Event]: ...
    def of(self, *kinds: str | type[LogRecord]) -> list[Any]:
        """Return the events of the given kinds: kind by kind, and within a kind in the order of reading.

        A kind may be a name from a data row: `.*` at its end means any kind with that prefix, `|` separates
        alternatives.
        """
        return self.of_kinds(*(kind if isinstance(kind, str) else kind_of(kind) for kind in kinds))

    def of_kinds(self, *kinds: str) -> list[Event]:
        """Return the events of the kinds that a row names."""
        events: list[Event] = []
        for kind in (name for names in kinds for name in names.split("|")):
            if kind.endswith(".*"):
                events += [
                    event
                    for name, of_kind in self._by_kind.items()
                    if name.startswith(kind[:-1])
                    for event in of_kind
                ]
            else:
                events += self._by_kind.get(kind, [])
        return events

    def has(self, *kinds: str | type[LogRecord]) -> bool:
        return any(self.of(kind) for kind in kinds)

    def matching(self, wanted: EventPattern) -> list[Event]:
        """Return the events that match a pattern, in order.

        The list is empty if there are fewer than the pattern requires.
        """
        events = [event for event in self.of(wanted.event) if meets(event.what, wanted.where)]
        return self.in_order(events) if sum(event.count for event in events) >= wanted.at_least else []

    def in_order(self, events: Sequence[Event[A]]) -> list[Event[A]]:
        """Return the events sorted by time and then by rank.

        The events have the order of reading if any event lacks a time.
        """
        if events and all(event.time_s is not None for event in events):
            return sorted(
                events, key=lambda event: (event.time_s or 0.0, _rank(event), self._place[id(event)])
            )
        return sorted(events, key=lambda event: self._place[id(event)])


def meets(record: LogRecord, where: Mapping[str, Condition]) -> bool:
    """Return whether the fields of a record meet all conditions."""
    return all(_meets(field_of(record, name), condition) for name, condition in where.items())


def number(value: Value | None) -> float | None:
    """Return a field as a number; None if the field is not a number."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _meets(value: Value | None, condition: Condition) -> bool:
    if isinstance(condition, list):
        return any(_same(value, wanted) for wanted in condition)
    if not isinstance(condition, str):
        return _same(value, condition)
    if condition in ("*", "-"):
        return (value is None) == (condition == "-")
    if condition.startswith("!~"):
        return value is None or not _expression(condition[2:]).search(str(value))
    if condition.startswith("~"):
        return value is not None and _expression(condition[1:]).search(str(value)) is not None
    for sign in _COMPARISONS:
        if condition.startswith(sign):
            return _compares(number(value), sign, float(condition[len(sign) :]))
    return _same(value, condition)


def _compares(value: float | None, sign: str, bound: float) -> bool:
    if value is None:
        return False
    return {">=": value >= bound, "<=": value <= bound, ">": value > bound, "<": value < bound}[sign]


def _same(value: Value | None, wanted: Value) -> bool:
    if value is None:
        return False
    return str(value) == str(wanted) or (number(value) is not None and number(value) == number(wanted))


def _rank(event: Event) -> int:
    return event.rank if event.rank is not None else 1 << 30


@functools.lru_cache(maxsize=512)
def _expression(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)
