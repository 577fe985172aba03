"""Functions that readers of NCCL's lines share: the prefix of a line, and the omission of repetitions.

The prefix of a warning is `[time] host:pid:tid [device] file.cc:line (function) NCCL WARN `; up to version
2.3, the word `NCCL` is missing.
"""

from collections.abc import Hashable

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine
from probes.logs.readers.row_readers import Row, read_rows

_PLACE = pattern(
    r"(?:^|\s|>:?)(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?P<pid>\d{1,10}):\d{1,10} (?:\[-?\d{1,4}\] |"
    r"(?=NCCL CALL))"
    r"(?P<where>[^\s:]{1,200}:\d{1,6} (?:\(\w{1,80}\) )?|\S.{0,120}?:\d{1,6} (?=NCCL WARN))?"
)
_INFORMATIVE = ("NCCL INFO ", "] INFO ", "NCCL TRACE ", "NCCL CALL ")
_WARNING = pattern(
    r"(?:NCCL |\] (?:\S{1,200}:\d{1,6} )?|^\s{0,16}\S{1,100}\.(?:cu|cc|h):\d{1,6} )WARN "
    r"(?P<message>\S.{0,2000})"
)
_MOST_KNOWN = 16_384


class Once:
    """A bounded set of reported items: 10,000 ranks report the same facts of a host.

    The set is cleared when it is full: an item may then be reported twice, but no item is lost.
    """

    def __init__(self) -> None:
        self._known: set[Hashable] = set()

    def is_new(self, item: Hashable) -> bool:
        """Return whether the item was not reported before."""
        if item in self._known:
            return False
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(item)
        return True


def located(line: LogLine) -> LogLine:
    """Return the line with the host and process of NCCL's own prefix.

    NCCL's prefix is more reliable: a launcher, pod or journal that forwards lines of several hosts puts its
    own name before each line.
    """
    match = _PLACE.search(line.text)
    return line if match is None else line._replace(host=match["host"], pid=int(match["pid"]))


def is_informative(text: str) -> bool:
    """Return whether a line has level INFO or below.

    At these levels, a reported failure may be a mere attempt.
    """
    return any(word in text for word in _INFORMATIVE)


def warning(text: str) -> str | None:
    """Return the text of a warning without its prefix; None if the line is not a warning."""
    match = _WARNING.search(text)
    return match["message"].strip() if match else None


def place(text: str) -> str:
    """Return the place in NCCL's code that wrote the line (`transport/nvls.cc:254`); empty if not named."""
    match = _PLACE.search(text)
    return (match["where"] or "").strip()[:120] if match else ""


def read_located(rows: tuple[Row, ...], line: LogLine) -> tuple[Event, ...]:
    """Return the event of the first row that fits, with the host that NCCL names."""
    events = read_rows(rows, line)
    return read_rows(rows, located(line)) if events else events
