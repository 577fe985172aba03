"""What a line of a log says, in the words of rigtune: the readers make events, causes and facts are found in
them.
"""

from __future__ import annotations

from probes.base.record import Record
from probes.logs.events.log_record import LogRecord, fields_of
from probes.logs.line import LogLine

Value = str | int | float
_CLOCKS_DIFFER_S = 30.0
"""A cause may be stamped so much later than its effect: hosts' clocks and buffers differ."""


class Event(Record, kw_only=True):
    """One thing that a log says."""

    kind: str
    """Dotted name, from the subject to the fact: `nccl.ib.completion-error`, `torch.watchdog-timeout`,
    `kernel.xid`.
    """
    fields: dict[str, Value] = {}
    """What the line names: `status`, `peer`, `interface`, `xid`; units in the name."""
    source: str
    number: int
    """Line, from 1."""
    text: str
    """The line as read, for showing as evidence."""
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    time_s: float | None = None
    count: int = 1
    """How often the like was seen, this being the first."""


def event_of(what: LogRecord | str, line: LogLine, fields: dict[str, Value] | None = None) -> Event:
    """An event that a line tells."""
    return Event(
        kind=what if isinstance(what, str) else what.KIND,
        fields=(fields or {}) if isinstance(what, str) else dict(fields_of(what)),
        source=line.source,
        number=line.number,
        text=line.text,
        host=line.host,
        rank=line.rank,
        local_rank=line.local_rank,
        pid=line.pid,
        time_s=line.time_s,
    )


def is_clearly_later(event: Event, than: Event) -> bool:
    """Whether one comes so long after another that it cannot have brought it about; False where a time is not
    known.
    """
    if event.time_s is None or than.time_s is None:
        return False
    return event.time_s > than.time_s + _CLOCKS_DIFFER_S
