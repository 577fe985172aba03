"""Count repeated events of a log: lines of the same kind, number, device and variant become one event."""

from typing import NamedTuple

from probes.base.record import NOT_RECORDED
from probes.facts import LogEvent
from probes.facts.observed import EventKind

MOST_EVENTS = 4096
"""Maximum number of different events that are kept from one log.

A real machine has far fewer. A hostile text may have one in each line.
"""
_LONGEST_MESSAGE = 400
LESSER = "~"
"""Prefix of the name of a reporter whose lines contain less information.

Such a reporter only counts if it has more lines than any other reporter.
"""


class Sighting(NamedTuple):
    """The content of one line."""

    kind: EventKind
    message: str
    device: str | None = None
    code: int | None = None
    sub_code: int | None = None
    after: int | None = None
    """Earlier Xid that caused this Xid; the same Xid without a cause is another event."""
    fatal: bool | None = None
    """True if the error is fatal; None if the line does not state whether it is."""
    variant: str = ""
    """Distinguishes events: lines of one kind and device with different values are different events."""
    view: str = ""
    """The reporter.

    If several report the same event (a NIC's driver, its bond, the network daemon), only the reporter with
    the most lines counts.
    """
    adds: int = 1
    """Number of events that the line reports; 0 if the line continues an event of the lines before it."""


class _Count:
    """The lines of one event."""

    __slots__ = ("count", "fatal", "first", "first_time", "last_line", "last_time", "line", "settled")

    def __init__(self, first: Sighting, line: int, time: str) -> None:
        self.first = first
        self.line = self.last_line = line
        self.first_time = self.last_time = time
        self.count = max(1, first.adds)
        self.fatal = first.fatal
        self.settled = False

    def add(self, sighting: Sighting, line: int, time: str) -> None:
        self.count += sighting.adds
        self.last_line = line
        self.last_time = time or self.last_time
        self.settled = False
        if sighting.fatal is not None:
            self.fatal = bool(self.fatal) or sighting.fatal

    def event(self) -> LogEvent:
        first = self.first
        return LogEvent(
            kind=first.kind,
            code=first.code,
            sub_code=first.sub_code,
            after=first.after,
            device=first.device,
            message=first.message[:_LONGEST_MESSAGE],
            fatal=NOT_RECORDED if self.fatal is None else self.fatal,
            count=self.count,
            first_time=self.first_time,
            last_time=self.last_time,
            line=self.line,
            last_line=self.last_line,
            settled=self.settled,
        )


_Key = tuple[str, str | None, int | None, int | None, int | None, str, str]


class Tally:
    """The events of one log, in the order of their first lines."""

    def __init__(self) -> None:
        self._counts: dict[_Key, _Count] = {}

    def add(self, sighting: Sighting, line: int, time: str) -> None:
        key = (
            sighting.kind,
            sighting.device,
            sighting.code,
            sighting.sub_code,
            sighting.after,
            sighting.variant,
            sighting.view,
        )
        count = self._counts.get(key)
        if count is not None:
            count.add(sighting, line, time)
        elif len(self._counts) < MOST_EVENTS:
            self._counts[key] = _Count(sighting, line, time)

    def settle(
        self,
        *,
        kinds: frozenset[EventKind] | None = None,
        device: str | None = None,
        but: frozenset[str] = frozenset(),
    ) -> None:
        """Mark earlier events as settled: all events, or only those of the given kinds and device.

        `but` contains variants that continue.
        """
        for count in self._counts.values():
            first = count.first
            is_of_kind = kinds is None or first.kind in kinds
            count.settled |= is_of_kind and device in {None, first.device} and first.variant not in but

    def events(self) -> tuple[LogEvent, ...]:
        """Return the events in the order of their first lines, each from the reporter with the most lines."""
        best: dict[tuple[object, ...], _Count] = {}
        for key, count in self._counts.items():
            without_view = key[:-1]  # Reporters of the same event differ only in the last part of the key.
            best[without_view] = max(best.get(without_view, count), count, key=_rank)
        return tuple(count.event() for count in sorted(best.values(), key=lambda count: count.line))


def _rank(count: _Count) -> tuple[int, bool]:
    return count.count, not count.first.view.startswith(LESSER)
