"""Reader of the progress of programs: whether they continue after a failure, and whether they finish.

A counter that does not advance is not progress, because a program that ends draws its progress bar again.
"""

import re
from collections import OrderedDict

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.process_events import ProgramFinished, ProgramProgress

_COUNTED = (
    r"(?:global[ _]?step|steps?|iter(?:ation)?s?|epochs?|updates?|batch(?:es)?|it|(?:train|val|eval|"
    r"lm)?[ _]?loss|train|"
    r"consumed[ _]samples|trials?|acc(?:uracy)?|rewards?|perplexity|ppl)"
)
_PROGRESS = pattern(
    rf"(?i)(?:^|[\s|\[({{,'\"]){_COUNTED}['\"]?\s{{0,4}}[:=#|\[(/ ]{{1,3}}\s{{0,8}}['\"]?\d|"
    r"\b\d[\d,.]{0,15}[kKMG]? ?(?:it/s|s/it|tok(?:ens)?/s(?:ec)?|samples/s(?:ec)?|img/s|images/sec)\b"
)
_COUNTERS = pattern(r"(\d{1,12}) ?/ ?(\d{1,12})")
_FINISHED = pattern(
    r"(?i)\b(?:train\w{0,8}|run|job|experiment|fine-?tun\w{1,6}|evaluation|benchmark|worker group|script|"
    r"program|all)\b"
    r".{0,40}?\b(?:completed?|finished|done)\b|^\W{0,4}(?:all )?done\b|^\W{0,4}(?:finished|"
    r"completed)\W{0,4}$|"
    r"\b(?:finished|completed|done)(?: with)?(?: the)? (?:training|fine-?tuning|evaluation|run|job|"
    r"benchmark)\W{0,4}$|"
    r"\b(?:completed|finished|done|ended) (?:successfully|ok)\b|"
    r"\bsuccessfully (?:completed|finished)\b|\bexit(?:ed)?(?: with)?(?: exit)?[ _](?:code|"
    r"status)[ :=]{1,3}0\b|"
    r"\bCOMPLETED\s{1,20}0:0\b|'train_runtime': ?\d"
)
_DENIED = pattern(
    r"(?i)\b(?:errors?|fail\w{0,4}|exception|abort\w{0,3}|kill\w{0,3}|crash\w{0,3}|interrupt\w{0,2}|not|"
    r"never|un\w{2,12}ed|before|"
    r"until|wandb|nccl|will|when|if|stuck|hang\w{0,3}|timed? ?out)\b"
)
"""Words of lines whose numbers do not count steps but, for example, the place of a failure."""
_OVERCOMES = pattern(
    r"(?i)\b(?:retry(?:ing)?|halving|fall(?:s|ing)? ?back|fallback|trying (?:port )?\d{2,}|skipp(?:ed|ing)|"
    r"resum(?:ed|ing))\b"
)
_ITSELF = pattern(r"(?i)\b(?:retrying|halving|skipp(?:ed|ing)|trial \d{1,9} failed)\b")
"""Words with which the line of a failure itself reports that the program continues.

The list is short, because messages of exceptions contain all kinds of words.
"""
_GIVES_UP = pattern(
    r"(?i)\b(?:giv\w{1,3} up|gave up|exceeded|failed to|cannot|can't|unable|abort\w{0,3}|exit\w{0,3}|"
    r"(?:no|not|without|after)(?: \w{1,12})? (?:retr|fall|resum|skip)\w{0,6})\b"
)
_NEAR_LINES = 12
"""Maximum number of lines between a failure and the line in which the program reports that it continues."""
_FAILURES = (
    b"will restart worker group",
    b"Traceback (most recent call last)",
    b"Error: ",
    b"out of memory",
    b"No space left",
    b"OutOfMemoryError",
    b"failed (exitcode: ",
    b"ddress already in use",
    b"CANCELLED AT ",
)
"""Failures after which the reader looks for progress."""
_MANY = 100
"""Number of lines of progress that other processes do not reach after one process has ended."""
_FEW = 3
"""Number of lines of progress that the delayed output of several ranks does not reach."""
_MOST_PENDING = 64
_MOST_PLACES = 4096

SIGNS: tuple[bytes, ...] = (*_FAILURES, b"Abort COMPLETE")
"""Failures and ends of communicators, which NCCL may report although the program continues."""
LINES_AFTER = 500
_FAILURE_WORDS = tuple(sign.decode() for sign in _FAILURES)
_FRAME = pattern(r'^\s{0,12}(?:File "|\^|~)|^\s{4}')

Place = tuple[str | None, int | None]
_NOBODY: Place = (None, None)


class Reader:
    """The course of one source's programs."""

    def __init__(self) -> None:
        self._pending: OrderedDict[int, _Pending] = OrderedDict()
        """State of each failure, with its line number as the key."""
        self._counters: dict[Place, tuple[str, str]] = {}
        self._last = (0, "")
        """Number and text of the last line, because the end of a log is read twice."""

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the progress that one line of a program reports."""
        text, place = line.text, _place(line)
        if line.number < self._last[0] or (line.number, text) == self._last:
            return ()
        self._last = (line.number, text)
        if any(words in text for words in _FAILURE_WORDS):
            self._advances(place, text)
            self._pending[line.number] = _Pending(place, is_overcome=_says(_ITSELF, text))
            if len(self._pending) > _MOST_PENDING:
                self._pending.popitem(last=False)
            return ()
        if _FRAME.match(text) is not None or " NCCL " in text:
            return ()
        if _says(_OVERCOMES, text) and self._is_overcome(place, line.number):
            return ()
        if _DENIED.search(text) is not None:
            return ()
        if _FINISHED.search(text) is not None:
            return (event_of(ProgramFinished(after=next(reversed(self._pending), 0)), line),)
        if _PROGRESS.search(text) is None or not self._advances(place, text):
            return ()
        return tuple(self._goes_on(place, line))

    def _advances(self, place: Place, text: str) -> bool:
        counters = _COUNTERS.findall(text)
        if not counters:
            return True
        counter = counters[-1]
        is_new: bool = self._counters.get(place) != counter
        if len(self._counters) < _MOST_PLACES or place in self._counters:
            self._counters[place] = counter
        return is_new

    def _is_overcome(self, place: Place, number: int) -> bool:
        """Mark the failures shortly before line `number`, and return whether any exists."""
        near = [
            pending
            for at, pending in self._pending.items()
            if number - at <= _NEAR_LINES and pending.place in (place, _NOBODY)
        ]
        for pending in near:
            pending.is_overcome = True
        return bool(near)

    def _goes_on(self, place: Place, line: LogLine) -> list[Event]:
        events: list[Event] = []
        for number, pending in self._pending.items():
            pending.lines += 1
            pending.own += pending.place == place
            enough = _FEW if place == _NOBODY else 1
            if pending.place == place and pending.own == enough:
                who = "log" if place == _NOBODY else "process"
                events.append(event_of(ProgramProgress(after=number, who=who), line))
            if pending.is_overcome and not pending.is_reported and pending.place in (place, _NOBODY):
                pending.is_reported = True
                events.append(event_of(ProgramProgress(after=number, who="reported"), line))
            if pending.lines == _MANY:
                events.append(event_of(ProgramProgress(after=number, who="many"), line))
        return events


class _Pending:
    """A failure, and the lines of progress that followed it."""

    __slots__ = ("is_overcome", "is_reported", "lines", "own", "place")

    def __init__(self, place: Place, *, is_overcome: bool) -> None:
        self.place = place
        self.is_overcome = is_overcome
        """True if the program reports that it continues."""
        self.is_reported = False
        """True if the program's continuation was already reported as an event."""
        self.lines = 0
        self.own = 0
        """Number of lines of progress that name the failed process."""


def _says(shape: re.Pattern[str], text: str) -> bool:
    return shape.search(text) is not None and _GIVES_UP.search(text) is None


def _place(line: LogLine) -> Place:
    return line.host, line.rank if line.rank is not None else line.local_rank
