"""Reader of torchrun's elastic agent (torch 1.9 to 2.13): failed workers, and the report of the failures.

The report at the end of a run is a block of lines: a title, a list of failures, and the root cause, each with
`key: value` lines.

Source: pytorch/pytorch, torch/distributed/elastic/multiprocessing/{api,errors/__init__,errors/handlers}.py
and elastic/agent/server/api.py (read 2026-11).
"""

from typing import Any

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.torch_events import (
    TorchAgentRestart,
    TorchAgentSignal,
    TorchAgentStopping,
    TorchChildFailed,
    TorchNoRecord,
    TorchWorkerFailed,
    TorchWorkerFinished,
)
from probes.logs.readers.row_readers import read_rows, row, signs, value_of, words_of


def _with_signal(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the signal that an exit code means: signal 9 for -9 (process) or 137 (shell)."""
    code = fields.get("exit_code")
    if code is None or "signal" in fields:
        return fields
    if -64 <= code < 0:
        return {**fields, "signal": -code}
    return (
        {**fields, "signal": code - 128} if code > 128 and code - 128 in {1, 2, 6, 7, 9, 11, 15} else fields
    )


def _worker_failed(fields: dict[str, Any]) -> TorchWorkerFailed:
    return TorchWorkerFailed(**_with_signal(fields))


_ROWS = (
    row(
        TorchWorkerFailed,
        "failed (exitcode: ",
        r"failed \(exitcode: (?P<exit_code>-?\d{1,4})\) local_rank: (?P<local_rank>\d{1,5}) \(pid: "
        r"(?P<pid>\d{1,10})\)",
        finish=_worker_failed,
    ),
    row(
        TorchWorkerFailed,
        "exits with return code = ",
        r"exits with return code = (?P<exit_code>-?\d{1,4})",
        finish=_worker_failed,
    ),
    row(
        TorchWorkerFailed,
        "died with <Signals.",
        r"died with <Signals\.(?P<name>SIG\w{2,8}): (?P<signal>\d{1,2})>",
        finish=_worker_failed,
    ),
    row(
        TorchWorkerFailed,
        "returned non-zero exit status ",
        r"CalledProcessError: .{0,4000}?returned non-zero exit status (?P<exit_code>\d{1,3})",
        finish=_worker_failed,
    ),
    row(
        TorchWorkerFailed,
        "hild process with PID ",
        r"\[rank: (?P<rank>\d{1,7})\] Child process with PID (?P<pid>\d{1,10}) terminated with code "
        r"(?P<exit_code>-?\d{1,4})",
        finish=_worker_failed,
    ),
    row(
        TorchAgentSignal,
        "got signal: ",
        r"(?:Process (?P<process>\d{1,10}) )?got signal: (?:Signals\.)?(?P<signal>\w{1,12})",
    ),
    row(
        TorchAgentSignal,
        "death signal, shutting down",
        r"[Rr]eceived (?:Signals\.)?(?P<signal>\w{1,12}) death signal",
    ),
    row(
        TorchAgentStopping,
        "closing signal ",
        r"Sending process (?P<process>\d{1,10}) closing signal (?:Signals\.)?(?P<signal>\w{1,12})",
    ),
    row(TorchAgentStopping, "forcefully exiting via", r"shutdown process (?P<process>\d{1,10}) via"),
    row(
        TorchAgentRestart,
        "attempts left; will restart worker group",
        r"(?P<left>\d{1,6})/\d{1,6} attempts left",
    ),
    row(TorchAgentRestart, "will restart worker group"),
    row(TorchWorkerFinished, " exits successfully", r"Process (?P<pid>\d{1,10}) exits successfully"),
    row(TorchNoRecord, "CHILD PROCESS FAILED WITH NO ERROR_FILE"),
)
_FIELD = pattern(r"^\W{0,4}?\s{0,12}(time|host|rank|exitcode|error_file|traceback|msg)\s{0,8}:\s?(.{0,300})$")
_RANK = pattern(r"(\d{1,7})(?: \(local_rank: (\d{1,5})\))?")
_EXIT = pattern(r"(-?\d{1,5})(?: \(pid: (\d{1,10})\))?")
_SIGNAL = pattern(r"Signal (\d{1,2}) \((SIG[A-Z0-9]{2,8})\)")
_MOST = 4096

SIGNS: tuple[bytes, ...] = (
    *signs(_ROWS),
    b"Root Cause",
    b"Failures:",
    b"NO_OTHER_FAILURES",
    b"  host      :",
    b"  rank      :",
    b"  exitcode  :",
    b"  error_file:",
    b"  traceback :",
    b"  time      :",
    b"  rank: ",
    b"  exitcode: ",
    b"  msg: ",
)


class Reader:
    """The failures of one source's reports."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._first: LogLine | None = None
        self._is_root = False
        self._reported = 0

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Read a line; the event of a failure is returned when the next failure begins or the block ends."""
        text = line.text
        if "Root Cause" in text:
            events = self._report()
            self._is_root = True
            return events
        if "Failures:" in text or "NO_OTHER_FAILURES" in text:
            events = self._report()
            self._is_root = False
            return events
        if (match := _FIELD.match(text)) is not None:
            return self._take(match[1], match[2].strip(), line)
        return (*self._report(), *read_rows(_ROWS, line))

    def end(self) -> tuple[Event, ...]:
        """Return the last failure."""
        return self._report()

    def _take(self, key: str, value: str, line: LogLine) -> tuple[Event, ...]:
        events = self._report() if key in self._known_keys() else ()
        if self._first is None:
            self._first = line
        self._fields.update(_fields(key, value))
        return events

    def _known_keys(self) -> frozenset[str]:
        """Return the keys of the current failure."""
        names = {"exit_code": "exitcode", "text": "traceback", "at": "time"}
        return frozenset(names.get(name, name) for name in self._fields)

    def _report(self) -> tuple[Event, ...]:
        fields, line = self._fields, self._first
        self._fields, self._first = {}, None
        if line is None or "exit_code" not in fields or self._reported >= _MOST:
            return ()
        self._reported += 1
        failure = TorchChildFailed(**_with_signal(fields), root=self._is_root)
        event = event_of(failure, line)
        rank = event.rank if failure.rank is None else failure.rank
        return (msgspec.structs.replace(event, rank=rank, host=failure.host or event.host),)


def _fields(key: str, value: str) -> dict[str, Any]:
    if key == "rank" and (match := _RANK.match(value)) is not None:
        return _numbers(rank=match[1], local_rank=match[2])
    if key == "exitcode" and (match := _EXIT.match(value)) is not None:
        return _numbers(exit_code=match[1], pid=match[2])
    if key == "error_file":
        return {} if "N/A" in value else {"error_file": words_of(value)}
    if key in ("traceback", "msg"):
        signal = _SIGNAL.search(value)
        text: dict[str, Any] = (
            {} if value.startswith("To enable traceback") else {"text": value_of(value.strip('"'))}
        )
        return text | ({"signal": int(signal[1])} if signal else {})
    if key in ("time", "host"):
        return {"at" if key == "time" else "host": value}
    return {}


def _numbers(**words: str | None) -> dict[str, Any]:
    return {name: int(word) for name, word in words.items() if word}
