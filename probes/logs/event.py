"""Events: the content of a log line, with its file, line number, time and process."""

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeGuard

from probes.base.record import Record
from probes.logs.events.log_record import LogRecord, Value, fields_of, kind_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    What_co = TypeVar("What_co", bound=LogRecord, covariant=True, default=LogRecord)
else:
    from typing import TypeVar

    What_co = TypeVar("What_co", bound=LogRecord, covariant=True)
Other = TypeVar("Other", bound=LogRecord)

_CLOCKS_DIFFER_S = 30.0
"""Maximum seconds by which a cause's time stamp may be later than its effect's, because clocks differ."""


class LogLine(NamedTuple):
    """A line without prefixes, and its origin; unknown parts of the origin are None."""

    source: str
    """Name of the file, `-` for a pipe."""
    number: int
    """Number of the line, from 1."""
    text: str
    """Text without prefixes and colours, at most 8 KiB."""
    host: str | None = None
    rank: int | None = None
    """Global rank, from the launcher's prefix or the line itself."""
    local_rank: int | None = None
    pid: int | None = None
    time_s: float | None = None
    """Seconds since 1970 in UTC if the time stamp has a date, else since another start, such as the boot.

    If the time stamp has no time zone, only differences are meaningful.
    """
    raw: str = ""
    """The line with all its prefixes, which readers of kernel logs need."""
    is_kernel: bool = False
    """True if the removed prefix comes from a kernel, or from a service that stores kernel messages."""


class Event(Record, Generic[What_co], kw_only=True):
    """A record with its line: the log, the position in the log, and the process that wrote the line."""

    what: What_co
    """The content of the line, as a record."""
    source: str
    """Name of the log."""
    number: int
    """Line, from 1."""
    text: str
    """Text of the line without prefixes, shown as evidence."""
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    time_s: float | None = None
    count: int = 1
    """Number of equal events; this event is the first of them."""

    @property
    def kind(self) -> str:
        """Return the dotted name of the kind of the record."""
        return kind_of(self.what)

    @property
    def fields(self) -> dict[str, Value]:
        """Return the record's fields by name, for rows of data and templates."""
        return fields_of(self.what)


def event_of(what: Other, line: LogLine) -> Event[Other]:
    """Return the event that a line reports."""
    return Event(
        what=what,
        source=line.source,
        number=line.number,
        text=line.text,
        host=line.host,
        rank=line.rank,
        local_rank=line.local_rank,
        pid=line.pid,
        time_s=line.time_s,
    )


def reporting(event: Event, what: Other) -> Event[Other]:
    """Return a copy of the event with another record."""
    return Event(
        what=what,
        source=event.source,
        number=event.number,
        text=event.text,
        host=event.host,
        rank=event.rank,
        local_rank=event.local_rank,
        pid=event.pid,
        time_s=event.time_s,
        count=event.count,
    )


def carries(event: Event, *records: type[Other]) -> TypeGuard[Event[Other]]:
    """Return whether the type of the event's record is one of `records`."""
    return isinstance(event.what, records)


def is_clearly_later(event: Event, than: Event) -> bool:
    """Return whether an event is too late to be the cause of another event; False if a time is unknown."""
    if event.time_s is None or than.time_s is None:
        return False
    return event.time_s > than.time_s + _CLOCKS_DIFFER_S
