"""A program's own failure: the first exception that ended a rank, before other ranks report its end.

Rows of `probes/data/exceptions.toml` contain the remedies. The last line of a traceback selects the row.
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows
from probes.logs.cause_rows import load_causes
from probes.logs.diagnosis import Diagnosis, EvidenceLine
from probes.logs.event import Event, is_clearly_later
from probes.logs.events.process_events import ProcessFrame, ProcessNoSpace, ProcessTooManyFiles
from probes.logs.events.torch_events import TorchException
from probes.logs.logged_events import LoggedEvents

_NEAR_LINES = 60
"""Maximum number of lines between two related exceptions of one process."""
_LONGEST = 200
_CONFIDENCE = 0.6
_MOST_LINES = 8
"""Maximum number of lines of evidence."""
_REMEDY = (
    "Read the traceback, starting at the last line of your own code. The fault is in the program, its data "
    "or a "
    "library."
)
_FOLLOWING = re.compile(
    r"^\w{1,40}: Caught \w{1,60} in |"
    r"^(?:[\w.]{0,120}\.)?(?:Dist(?:Backend|Network|Store)?Error|ChildFailed|Signal|Rendezvous)|"
    r"CalledProcessError|ProcessExited|"
    r"NCCL|Gloo|Connection(?!Pool)|Socket|Broken pipe|timed? ?out",
    re.I,
)
"""Exceptions that other ranks, launchers and libraries raise after a failure elsewhere."""
_OUTSIDE = re.compile(r"https?://|HTTPS?ConnectionPool|huggingface", re.I)


class ExceptionRow(StrictRecord, kw_only=True):
    """Exceptions with one remedy, recognised by number, by kind, or by name or message."""

    errno: tuple[int, ...] = ()
    """Error number of Linux."""
    name: str = ""
    """Expression for the class, with its module if the line names the module."""
    message: str = ""
    """Expression for the message after the class."""
    kinds: tuple[str, ...] = ()
    """Kinds of events other than `torch.exception`."""
    system: bool = False
    """True if the exception means that the operating system refused something.

    Other exceptions may follow from it.
    """
    what: str
    remedy: str
    command: str | None = None

    def fits(self, event: Event) -> bool:
        """Return whether an event fits the row."""
        exception = event.what
        if not isinstance(exception, TorchException):
            return event.kind in self.kinds
        if exception.errno is not None:
            return exception.errno in self.errno or (not self.errno and self._is_named(exception))
        return self._is_named(exception)

    def _is_named(self, exception: TorchException) -> bool:
        return bool(
            (self.name and re.search(self.name, exception.name, re.IGNORECASE))
            or (self.message and re.search(self.message, exception.message or "", re.IGNORECASE))
        )


class _Rows(StrictRecord, kw_only=True):
    date: str
    exception: tuple[ExceptionRow, ...]


def row_of(event: Event) -> ExceptionRow | None:
    """Return the first row that fits an exception."""
    return next((row for row in load_exceptions() if row.fits(event)), None)


@functools.lru_cache(maxsize=1)
def load_exceptions() -> tuple[ExceptionRow, ...]:
    """Return the rows shipped with rigtune."""
    return msgspec.convert(read_rows("exceptions"), _Rows).exception


class OwnFailure(NamedTuple):
    """An exception, and the line of the program's own code that raised it."""

    event: Event
    frame: Event[ProcessFrame] | None
    others: tuple[Event, ...]
    """Further exceptions of the program itself."""

    @property
    def is_placed(self) -> bool:
        """Return whether the exception ended a rank: it has a traceback, or the launcher names the rank."""
        return self.frame is not None or self.event.rank is not None or self.event.local_rank is not None

    def is_before(self, event: Event) -> bool:
        """Return whether another rank's report may be an effect of this failure.

        The times decide. Without times, the line numbers decide within one log; for two logs, the answer is
        True.
        """
        own = self.event
        if own.rank is not None and own.rank == event.rank:
            return False
        if own.time_s is not None and event.time_s is not None:
            return not is_clearly_later(own, event)
        return own.source != event.source or own.number < event.number

    def diagnosis(
        self, secondary: tuple[str, ...], shown: Callable[[Event], EvidenceLine], where: str
    ) -> Diagnosis:
        """Return the diagnosis; `where` names the rank and host."""
        row, event = row_of(self.event), self.event
        words = ": ".join(word for word in _words(event) if word) or event.text.strip()
        place = f", at {self.frame.what.place}" if self.frame is not None else ""
        words = f"{words[:_LONGEST].rstrip('.: ')}{place}{where}"
        if row is None:
            summary = f"The program itself failed first: {words}."
        elif row.system:
            summary = f"{row.what[:1].upper()}{row.what[1:]}, and the program ended: {words}."
        else:
            summary = f"The program itself failed first: {words}: {row.what}."
        has_effects = bool(secondary) or len(self.others) > 1
        others = " The other failures in these logs are probably its effects." if has_effects else ""
        remedy = row.remedy if row is not None else _REMEDY
        evidence = [*([self.frame] if self.frame is not None else []), event, *self.others]
        return Diagnosis(
            cause_id="unknown",
            confidence=_CONFIDENCE,
            summary=summary,
            remedy=f"{remedy}{others}",
            command=row.command if row is not None else None,
            secondary=secondary,
            evidence=tuple(shown(each) for each in evidence[:_MOST_LINES]),
            source=load_causes().find("unknown").source,
        )


def own_failure(logged: LoggedEvents, explained: Iterable[tuple[str, int]]) -> OwnFailure | None:
    """Return the program's first exception whose line no cause explains.

    If the operating system refused something close to this line, that exception is returned instead.
    `explained` contains the source and number of each line that supports a cause.
    """
    known = frozenset(explained)
    own = [
        event
        for event in logged.in_order(logged.of(TorchException, ProcessNoSpace, ProcessTooManyFiles))
        if (event.source, event.number) not in known and _is_own(event)
    ]
    if not own:
        return None
    first = own[0]
    near = [
        event
        for event in own
        if _process(event) == _process(first) and abs(event.number - first.number) <= _NEAR_LINES
    ]
    root = next((event for event in near if (row := row_of(event)) is not None and row.system), first)
    frame = next(
        (
            event
            for event in logged.of(ProcessFrame)
            if event.source == root.source
            and event.what.ends in {exception.number for exception in (root, *near)}
        ),
        None,
    )
    return OwnFailure(root, frame, tuple(event for event in own if event is not root))


def _words(event: Event) -> tuple[str, str]:
    """Return the class and message of an exception; empty for other events."""
    match event.what:
        case TorchException(name=name, message=message):
            return name, message or ""
    return "", ""


def _is_own(event: Event) -> bool:
    words = ": ".join(_words(event))
    return _FOLLOWING.search(words) is None or _OUTSIDE.search(words) is not None


def _process(event: Event) -> tuple[str, str | None, int | None, int | None]:
    return event.source, event.host, event.rank, event.local_rank
