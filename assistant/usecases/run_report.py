"""The report of a short run in lines of JSON, or the steps in the logs of the user's program."""

import json
import os
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from assistant.storage import read_bytes
from probes.base.errors import InputError
from probes.base.record import Record
from probes.logs.training_steps import StepLog, read_step_log

WARM_UP = 3
"""Number of first steps that are left out if at least as many follow; otherwise only the first is left out.

The reference program leaves out as many.
"""
_REPORT_BYTES = 64 * 1024**2
"""Largest report or log; a line of a report has about 60 bytes."""
_REST = 10.0
"""A log is read again after this many times the duration of the last reading."""
_Seconds = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]
"""A time that a step can have; ratios of such times are finite."""
_Bytes = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class Start(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line of the reports of the reference program and of the helper."""

    world_size: int
    backend: str
    device_name: str
    torch_version: str


class Step(Record, kw_only=True, tag_field="event", tag="step"):
    """One optimizer step; a user's program without the helper reports only such lines."""

    step: int
    duration_s: _Seconds
    loss: float | msgspec.UnsetType | None = msgspec.UNSET
    """None if the loss is no finite number; unset if the program does not report the loss of this step."""
    peak_memory_bytes: _Bytes | None = None
    """Allocated memory: the largest peak so far."""
    peak_reserved_bytes: _Bytes | None = None


class Done(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of the reference program's report."""

    steps: int
    interrupted: bool
    median_step_time_s: _Seconds
    peak_memory_bytes: _Bytes
    peak_reserved_bytes: _Bytes | None = None
    loss_first: float | None
    """None if the loss is no finite number."""
    loss_last: float | None


class Failed(Record, kw_only=True, tag_field="event", tag="failed"):
    """The last line of a failed run of the reference program."""

    message: str
    kind: str = ""


Line: TypeAlias = Start | Step | Done | Failed


def read_report(path: Path) -> tuple[list[Line], str]:
    """Return the lines of the report up to the first wrong line, and what is wrong; empty if nothing is.

    A last line without a line break may still be incomplete. A user's program can write anything to this
    path.
    """
    lines: list[Line] = []
    if not os.path.lexists(path):
        return lines, ""
    try:
        data = read_bytes(path, limit_bytes=_REPORT_BYTES)
    except InputError as error:
        return lines, error.message
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            lines += [_decoded(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            is_complete = number <= data.count(b"\n")
            return lines, f"line {number} of the report {path} is wrong: {error}" if is_complete else ""
    return lines, ""


def _decoded(line: bytes) -> Line:
    """Return a line of a report. Raises ValueError or RecursionError for anything else.

    Many programs write NaN and Infinity, which are not JSON; these numbers are read as null.
    """
    try:
        record: Line = msgspec.json.decode(line, type=Line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"NaN" not in line and b"Infinity" not in line:
            raise
        record = msgspec.convert(json.loads(line, parse_constant=lambda _: None), Line)
    return record


def warm_steps(steps_s: tuple[float, ...]) -> tuple[float, ...]:
    """Return the step times without the first steps; a single step time is kept."""
    return steps_s[WARM_UP if len(steps_s) >= 2 * WARM_UP else 1 :] or steps_s


def median_step_s(steps_s: tuple[float, ...]) -> float | None:
    """Return the median step time after the first steps; None without steps."""
    return statistics.median(warm_steps(steps_s)) if steps_s else None


class OwnLogs:
    """The steps in the logs of a user's program, which are read again only after one of the logs changed."""

    def __init__(self, outputs: Iterable[Path], folder: Path) -> None:
        """Store the files of the program's output, and the folder in which the program keeps logs."""
        self.steps = StepLog()
        self._outputs, self._folder = dict.fromkeys(outputs), folder
        self._states: dict[Path, tuple[int, int]] = {}
        self._rests_until = 0.0

    def read(self, *, is_last: bool) -> StepLog:
        """Return the steps in the output, or else in the first file of the folder that has steps.

        Unless `is_last` is set, the logs are then not read for `_REST` times as long as reading them took,
        because the program needs the processor.
        """
        began = time.monotonic()
        if began < self._rests_until and not is_last:
            return self.steps
        files = (path for name in _LOG_NAMES for path in sorted(self._folder.rglob(name)))
        states = {path: state for path in (*self._outputs, *files) if (state := _state_of(path))}
        if states != self._states:
            self._states, self.steps = states, _first_steps(states)
            self._rests_until = began + _REST * (time.monotonic() - began)
        return self.steps


_LOG_NAMES = ("trainer_log.jsonl", "metrics.csv", "trainer_state.json")
"""Files with steps that programs write below their output folder."""


def _state_of(path: Path) -> tuple[int, int] | None:
    """Return the size and the time of the last change of a file; None for a file that cannot be read."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _first_steps(paths: Iterable[Path]) -> StepLog:
    """Return the steps of the first log that has some."""
    for path in paths:
        try:
            data = read_bytes(path, limit_bytes=_REPORT_BYTES)
        except InputError:
            continue
        if (log := read_step_log(data)).samples:
            return log
    return StepLog()
