"""Reading of logs, from their bytes to an explanation."""

from collections.abc import Iterable

import msgspec

from probes.logs.causes.explaining import explain
from probes.logs.diagnosis import Explanation
from probes.logs.event import Event
from probes.logs.facts import Facts, facts_of
from probes.logs.gather import EventBook, SourceReader
from probes.logs.ordering import merged, with_ranks
from probes.logs.redacting import LogRedactor
from probes.logs.stream import LONGEST_LINE
from probes.parsers.kernel.log_lines import is_log_line

_HEAD_BYTES = 4096
_FEW_LINES = 20
_NOTHING_FOUND = (
    "Nothing in these logs reports a failure, or the setup of the run. Take the whole output of all "
    "ranks, with "
    "NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL set for the job, and the kernel log of each node "
    "(dmesg -T).",
)
_EMPTY = (
    "The logs are empty. Check that the output of the job, stderr too, is written to them: "
    "COMMAND > job.log 2>&1.",
)


class Reading:
    """Reads several sources, one after another or in turns."""

    def __init__(self, redactor: LogRedactor | None = None) -> None:
        """Start without sources; with a `redactor`, placeholders replace names in the explanation."""
        self._redactor = redactor
        self._book = EventBook() if redactor is None else EventBook(LONGEST_LINE)
        self._facts = Facts()
        self._sources: dict[str, SourceReader] = {}
        self._is_kernel_log = False
        """True if a source is a kernel log. A healthy kernel log may contain no line that a reader wants."""

    @property
    def has_events(self) -> bool:
        return self._book.total > 0

    def source(self, name: str, *, year: int | None = None) -> SourceReader:
        """Return the reader of a further source; `year` is used for time stamps without a year."""
        reader = self._sources[name] = SourceReader(name, self._take, year=year)
        return reader

    def feed(self, reader: SourceReader, chunk: bytes) -> None:
        """Read more of a source."""
        if not reader.lines_read:
            self._is_kernel_log |= _is_kernel_log(chunk)
        reader.feed(chunk)

    def events(self) -> list[Event]:
        """Return the events in order, each with the rank of its process."""
        return with_ranks(merged(self._book.events()))

    def explanation(self, beside: Iterable[Event] = ()) -> Explanation:
        """Return the explanation of the lines that were read so far.

        `beside` contains events with facts of the machine and the recipe.
        """
        beside = tuple(beside)
        if self._redactor is not None:
            self._redactor.learn((*self._book.events(), *beside), self._sources)
        names = {
            name: name if self._redactor is None else self._redactor.text(name) for name in self._sources
        }
        if self.has_events or self._is_kernel_log:
            words = {names[name]: reader.last_word for name, reader in self._sources.items()}
            events, facts = self.events(), self._facts
            if self._redactor is not None:
                events, facts = self._redacted(self._redactor)
                beside = tuple(map(self._redactor.event, beside))
            explanation = explain(events, facts.as_dict(), last_lines=words, beside=beside)
        else:
            is_empty = not any(reader.lines_read for reader in self._sources.values())
            missing = _EMPTY if is_empty else _NOTHING_FOUND
            explanation = Explanation(state="unknown", diagnoses=(), collect_next=missing)
        lines = sum(reader.lines_read for reader in self._sources.values())
        return msgspec.structs.replace(explanation, lines_read=lines, sources=tuple(names.values()))

    def _redacted(self, redactor: LogRedactor) -> tuple[list[Event], Facts]:
        """Return the events, and the facts of the run, with placeholders for names."""
        events = [redactor.event(event) for event in self._book.events()]
        return with_ranks(merged(events)), facts_of(events)

    def _take(self, event: Event) -> None:
        self._book.add(event)
        self._facts.add(event)


def _is_kernel_log(head: bytes) -> bool:
    lines = head[:_HEAD_BYTES].decode("utf-8", "replace").splitlines()[:_FEW_LINES]
    return sum(map(is_log_line, lines)) * 2 > len(lines)
