"""Place where an exception was raised: the innermost line of the program's own code in a Python traceback.

If a traceback has only lines of libraries, the innermost of these counts.

The reader of process ends uses this module.
"""

from typing import NamedTuple

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of, reporting
from probes.logs.events.process_events import ProcessFrame
from probes.logs.events.torch_events import TorchException

SIGNS: tuple[bytes, ...] = (b"Traceback (most recent call last)", b'File "')
_FRAME = pattern(
    r'(?:^|\s)File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7})(?:, in (?P<function>[\w<>.]{1,80}))?'
)
_OF_LIBRARIES = pattern(r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]python\d|^<")
_LAST = pattern(r"^(?P<name>[A-Za-z_][\w.]{2,120}): (?P<message>\S.{0,300})$")
_MOST_PROCESSES = 4096
_MOST_LINES = 200
"""Maximum number of lines between a frame and its exception; the outputs of several ranks may be mixed."""

Process = tuple[str | None, int | None]


class _Frame(NamedTuple):
    line: LogLine
    place: str
    is_own: bool


class Frames:
    """The tracebacks of one source, by process."""

    def __init__(self) -> None:
        self._frames: dict[Process, _Frame] = {}

    def take(self, process: Process, line: LogLine) -> bool:
        """Store the frame of a line; return whether the line is the head or a frame of a traceback."""
        if "Traceback (most recent" in line.text:
            self._frames.pop(process, None)
            return True
        match = _FRAME.search(line.text)
        if match is None:
            return False
        known = self._frames.get(process)
        is_own = _OF_LIBRARIES.search(match["file"]) is None
        if (is_own or known is None or not known.is_own) and (
            known is not None or len(self._frames) < _MOST_PROCESSES
        ):
            name = match["file"].replace("\\", "/").rpartition("/")[2]
            place = f"{name}:{match['line']}" + (f" in {match['function']}" if match["function"] else "")
            self._frames[process] = _Frame(line, place, is_own)
        return True

    def ended(self, process: Process, line: LogLine, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events; the event of a traceback's last line gets the traceback's frame and `place`."""
        frame = self._frames.get(process)
        if frame is None or line.number - frame.line.number > _MOST_LINES:
            return events
        if not events and (match := _LAST.match(line.text)) is not None:
            events = (event_of(TorchException(name=match["name"], message=match["message"]), line),)
        if not any(event.kind.startswith(("process.", "torch.exception")) for event in events):
            return events
        del self._frames[process]
        placed = tuple(_placed(event, frame.place) for event in events)
        return (event_of(ProcessFrame(place=frame.place, ends=line.number), frame.line), *placed)


def _placed(event: Event, place: str) -> Event:
    """Return the event with the line of the program's own code, if its record has a field for the line."""
    if "place" not in event.what.__struct_fields__:
        return event
    return reporting(event, msgspec.structs.replace(event.what, place=place))
