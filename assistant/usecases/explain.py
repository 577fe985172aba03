"""Read logs of any size from files, folders and pipes, and diagnose what happened."""

import contextlib
import io
import os
import secrets
import select
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from assistant.usecases.events import Event, Progress, StageStarted, stage
from assistant.usecases.explain_compared import differences_in, known_beside
from assistant.usecases.explain_files import PIPE, chunks, files_of, is_packed, opened, some
from probes.base.errors import InputError
from probes.facts import MachineFacts
from probes.logs.diagnosis import Explanation
from probes.logs.gather import SourceReader
from probes.logs.reading import Reading
from probes.logs.redacting import LogRedactor
from recipes.launch.recipe import Recipe

_POLL_S = 0.5
_REPORT_EVERY_S = 2.0


@stage("explain")
def explain_logs(
    names: Sequence[str],
    *,
    following: bool = False,
    is_over: Callable[[], bool] = lambda: False,
    recipe: Recipe | None = None,
    machine: MachineFacts | None = None,
    redacting: bool = False,
) -> Generator[Event, None, Explanation]:
    """Read `names` (files, folders, `-` for standard input); the last event's result is an `Explanation`.

    If `following` is set, files are read while they grow, and faults are reported within seconds, until
    `is_over` returns True or all pipes end. The run is compared with `recipe` and `machine` if they are
    given. If `redacting` is set, placeholders replace names. Raises InputError for unreadable sources.
    """
    yield StageStarted(stage="explain", title="reading logs")
    redactor = LogRedactor(secrets.token_bytes()) if redacting else None
    shown = redactor.text if redactor is not None else str
    reading = Reading(redactor)
    try:
        files = files_of(names)
        if following:
            yield from _follow(reading, files, is_over)
        else:
            yield from _read_all(reading, files, names, shown)
    except InputError as error:
        raise InputError(shown(error.message), shown(error.hint)) from error
    beside = known_beside(reading.events(), recipe, machine)
    explanation = reading.explanation(beside)
    if differences := differences_in(beside):
        facts = {**explanation.facts, "differences": tuple(map(shown, differences))}
        return msgspec.structs.replace(explanation, facts=facts)
    return explanation


def _read_all(
    reading: Reading, files: Sequence[str], wanted: Sequence[str], shown: Callable[[str], str]
) -> Iterator[Event]:
    """Read each file to its end; skip an unreadable file of a folder, unless it is the only file."""
    for number, name in enumerate(files):
        yield Progress(stage="explain", message=shown(name), done=number, total=len(files))
        try:
            _read(reading, name)
        except InputError as error:
            if name in wanted or len(files) == 1:
                raise
            yield Progress(stage="explain", message=shown(f"skipped: {error.message}"))


def _read(reading: Reading, name: str) -> None:
    with opened(name) as file:
        reader = reading.source(name, year=_year(file))
        for chunk in chunks(name, file):
            reading.feed(reader, chunk)
        reader.end()


def _follow(reading: Reading, names: Sequence[str], is_over: Callable[[], bool]) -> Iterator[Event]:
    """Read all sources while they grow, and report each fault once; compressed files are read once."""
    reported: set[str] = set()
    reported_s = 0.0
    packed = [name for name in names if is_packed(name)]
    for name in packed:
        _read(reading, name)
    with contextlib.ExitStack() as stack:
        files = [(name, stack.enter_context(opened(name))) for name in names if name not in packed]
        tails = [_Tail(name, file, reading, reading.source(name, year=_year(file))) for name, file in files]
        while any(not tail.is_over for tail in tails) and not is_over():
            grown = [tail.grow() for tail in tails]
            if reading.has_events and time.monotonic() - reported_s >= _REPORT_EVERY_S:
                reported_s = time.monotonic()
                for diagnosis in reading.explanation().diagnoses:
                    if diagnosis.is_fault and diagnosis.cause_id not in reported:
                        reported.add(diagnosis.cause_id)
                        yield Progress(stage="explain", message=f"{diagnosis.cause_id}: {diagnosis.summary}")
            if not any(grown):
                time.sleep(_POLL_S)
        for tail in tails:
            tail.end()


class _Tail:
    """A source that may grow, be truncated, or be replaced by a new file of the same name."""

    def __init__(self, name: str, file: io.RawIOBase, reading: Reading, reader: SourceReader) -> None:
        self.reader = reader
        self._reading = reading
        self.is_over = False
        self._name = name
        self._file = file
        self._own: io.RawIOBase | None = None
        """The file that this object opened itself and must close; None if a caller opened the file."""
        self._is_regular = name != PIPE and Path(name).is_file()

    def grow(self) -> bool:
        """Read the available bytes; return True if there were any."""
        if self.is_over or not self._is_ready():
            return False
        data = some(self._name, self._file.read)
        if data:
            self._reading.feed(self.reader, data)
            return True
        if not self._is_regular:
            self.is_over = True
        elif os.fstat(self._file.fileno()).st_size < self._file.tell():  # truncated and written again
            self._file.seek(0)
            self._reading.feed(self.reader, b"\n")
        else:
            self._reopen()
        return False

    def _reopen(self) -> None:
        """Continue with the new file if the name now belongs to another file, as after log rotation."""
        with contextlib.suppress(OSError):
            if os.path.samestat(Path(self._name).stat(), os.fstat(self._file.fileno())):
                return
            file = open(self._name, "rb", buffering=0)  # noqa: PTH123, SIM115 - closed at the end
            while data := some(self._name, self._file.read):  # written before the rotation
                self._reading.feed(self.reader, data)
            self._close()
            self._file = self._own = file
            self._reading.feed(self.reader, b"\n")

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()

    def end(self) -> None:
        """Process the remaining bytes and close the file."""
        self.reader.end()
        self._close()

    def _is_ready(self) -> bool:
        """Return whether the next read returns without waiting."""
        try:
            return bool(select.select([self._file], [], [], 0)[0])
        except (OSError, ValueError):  # for example a decompressing reader, which has no file descriptor
            return True


def _year(file: io.RawIOBase) -> int:
    """Return the year of the file's last change, or this year for a pipe, for time stamps without a year."""
    moment = time.time()
    with contextlib.suppress(OSError, ValueError):
        status = os.fstat(file.fileno())
        moment = status.st_mtime if status.st_size else moment
    return datetime.fromtimestamp(moment, timezone.utc).year
