"""Reader of the ends of processes: Python and C++ tracebacks, signals, MPI aborts, messages of shells.

Source: open-mpi/ompi help texts, pmodels/mpich hydra, CPython faulthandler.c, glibc, pytorch torch/utils/data
(read 2026-11).
"""

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, carries, reporting
from probes.logs.events.process_events import (
    MpiAbort,
    MpiDaemonLost,
    MpiLaunchFailed,
    MpiNoTransport,
    MpiProcessExit,
    ProcessAddressInUse,
    ProcessDiverged,
    ProcessInterrupted,
    ProcessLoaderError,
    ProcessNoSpace,
    ProcessOutOfMemory,
    ProcessSignal,
    ProcessTerminated,
    ProcessTooManyFiles,
    ProcessUsage,
    ProcessWhat,
    TorchBusError,
    TorchWorkerKilled,
)
from probes.logs.events.torch_events import TorchException
from probes.logs.frames import SIGNS as FRAME_SIGNS
from probes.logs.frames import Frames
from probes.logs.readers.row_readers import read_rows, row, signs

_LOGGED = (
    r"(?:(?:stderr|(?:python|torchrun|bash)[\d.]{0,6}|(?=[\w.-]{0,60}\d)[A-Za-z][\w.-]{1,60}|"
    r"\w{1,30}\[\d{1,9}\]): |"
    r"[\w.-]{1,60} {1,4}\| )?(?:(?:ERROR|CRITICAL) [\d:. -]{8,26} ?\[?[\w./]{1,80}\.py:\d{1,6}\]:? )?"
)
"""Prefixes of launchers (a host, a container, a stream) and of vLLM's logger in tracebacks."""
_BARE = ("AssertionError", "NotImplementedError", "EOFError", "TimeoutError", "StopIteration")
"""Exceptions whose traceback often ends with only the name of the exception."""
_ROWS = (
    row(
        TorchBusError,
        "insufficient shared memory (shm)",
        shm=True,
    ),
    row(
        TorchWorkerKilled,
        "is killed by signal",
        r"DataLoader worker \(pid\(?s?\)? ?(?P<child>\d{1,10})[^)]{0,80}\) (?:is killed by signal|"
        r"exited unexpectedly)"
        r"(?:: (?P<signal>[A-Z][\w ]{2,30}))?",
    ),
    row(
        TorchWorkerKilled,
        "exited unexpectedly",
        r"DataLoader worker \(pid(?:\(s\))? (?P<child>\d{1,10})[\d, ]{0,80}\) exited unexpectedly",
    ),
    row(
        ProcessSignal,
        "terminated with signal SIG",
        r"process (?P<process>\d{1,6}) terminated with signal (?P<name>SIG[A-Z]{2,6})",
    ),
    row(ProcessSignal, "Fatal Python error: ", r"Fatal Python error: (?P<name>[A-Z][\w ]{2,40})"),
    row(ProcessSignal, "Signal: ", r"Signal: (?P<name>[A-Z][\w ]{2,30}) \((?P<signal>\d{1,2})\)"),
    row(
        ProcessSignal,
        "*** SIG",
        r"\*\*\* (?P<name>SIG[A-Z]{2,6}) \(@0x[0-9a-f]{1,16}\) received by PID (?P<process>\d{1,10})",
    ),
    row(
        ProcessSignal,
        "aught signal ",
        r"[Cc]aught signal (?P<signal>\d{1,2}) \((?P<name>[A-Z][\w ]{2,30})(?:: [^)]{1,80})?\)",
    ),
    row(
        ProcessSignal,
        "(core dumped)",
        r"(?P<name>Segmentation fault|Bus error|Aborted|Illegal instruction|"
        r"Floating point exception)\s{1,40}\(core dumped\)",
    ),
    row(
        ProcessSignal,
        "Bus error",
        r"^(?:.{0,120}: line \d{1,6}:\s{1,8}(?P<process>\d{1,10})\s{1,4})?(?P<name>Bus error)\s{0,40}"
        r"(?:[\w./$\"-].{0,200})?$",
    ),
    row(
        ProcessSignal,
        "Segmentation fault",
        r"^(?:.{0,120}: line \d{1,6}:\s{1,8}(?P<process>\d{1,10})\s{1,4})?(?P<name>Segmentation fault)\b",
    ),
    row(ProcessSignal, " Killed ", r": line \d{1,6}:\s{1,8}(?P<process>\d{1,10})\s{1,4}(?P<name>Killed)\s"),
    row(ProcessSignal, "Killed", r"^(?P<name>Killed)\s{0,8}$"),
    row(ProcessSignal, "Process received signal", r"\*\*\* (?P<name>Process received signal) \*\*\*"),
    row(
        ProcessTerminated,
        "terminate called",
        r"terminate called (?:after throwing an instance of '(?P<name>[^']{1,120})'|"
        r"(?P<text>recursively|without an active exception))",
    ),
    row(MpiAbort, "MPI_ABORT was invoked", r"MPI_ABORT was invoked on rank (?P<rank>\d{1,7})"),
    row(
        MpiAbort,
        "MPI_Abort(",
        r"MPI_Abort\((?:[^,)]{0,60}, ?)?(?P<code>-?\d{1,10})\)(?: - process (?P<rank>\d{1,7}))?",
    ),
    row(
        MpiProcessExit,
        " exited on signal ",
        r"process rank (?P<rank>\d{1,7}) with PID \d{1,10} on node (?P<node>\S{1,120}) exited on signal "
        r"(?P<signal>\d{1,2})",
    ),
    row(
        MpiProcessExit,
        "exited with non-zero status",
        r"(?:Process name: \[\[\d{1,9},\d{1,9}\],(?P<rank>\d{1,7})\])?.{0,200}exited with non-zero status",
    ),
    row(MpiProcessExit, "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
    row(
        MpiProcessExit,
        "APPLICATION TERMINATED WITH THE EXIT STRING",
        r"EXIT STRING: .{1,40}\(signal (?P<signal>\d{1,2})\)",
    ),
    row(MpiProcessExit, "KILLED BY SIGNAL: ", r"KILLED BY SIGNAL: (?P<signal>\d{1,2})"),
    row(MpiLaunchFailed, "ORTE was unable to reliably start one or more daemons"),
    row(MpiDaemonLost, "has lost communication with a remote daemon"),
    row(
        MpiDaemonLost, "Remote daemon:", r"Remote daemon: {0,4}\[[^\n]{1,40}\] on node (?P<node>[\w.-]{1,80})"
    ),
    row(
        MpiLaunchFailed,
        "There are not enough slots available in the system",
        r"(?P<reason>not enough slots available)",
    ),
    row(MpiLaunchFailed, "Host key verification failed", r"(?P<reason>Host key verification failed)"),
    row(MpiLaunchFailed, "Permission denied (", r"(?P<reason>Permission denied \([a-z,-]{4,80}\))"),
    row(
        MpiLaunchFailed,
        "Could not resolve hostname",
        r"ssh: (?P<reason>Could not resolve hostname \S{1,120})",
    ),
    row(
        MpiLaunchFailed,
        "ssh: connect to host",
        r"ssh: (?P<reason>connect to host \S{1,120} port \d{1,5}: .{1,60})",
    ),
    row(MpiLaunchFailed, "kex_exchange_identification", r"(?P<reason>kex_exchange_identification: .{1,80})"),
    row(MpiLaunchFailed, "_init failed for some reason", r"It looks like (?P<reason>\w{3,20}_init failed)"),
    row(MpiLaunchFailed, "It looks like MPI_INIT failed", r"(?P<reason>MPI_INIT failed)"),
    row(MpiNoTransport, "No components were able to be opened in the pml framework"),
    row(MpiNoTransport, "At least one pair of MPI processes are unable to reach each other"),
    row(ProcessOutOfMemory, "std::bad_alloc"),
    row(ProcessOutOfMemory, "OOMKilled", scope="container"),
    row(ProcessOutOfMemory, "killed due to memory pressure (OOM)"),
    row(ProcessOutOfMemory, "ray.exceptions.OutOfMemoryError"),
    row(ProcessOutOfMemory, "MemoryError", r"(?:^|[\s._]|_Array)MemoryError(?:\b|$)"),
    row(ProcessOutOfMemory, "not enough memory: you tried to allocate"),
    row(
        ProcessOutOfMemory,
        "DefaultCPUAllocator: ",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
    ),
    row(ProcessOutOfMemory, "The node was low on resource: memory"),
    row(
        TorchBusError,
        "No space left on device",
        r"unable to (?:write to|resize|allocate).{0,40}</?torch_[^>]{0,80}>.{0,60}No space",
        shm=True,
    ),
    row(
        ProcessOutOfMemory,
        "Cannot allocate memory",
        r"(?:OSError|RuntimeError|BlockingIOError|fork).{0,80}Cannot allocate memory",
    ),
    row(
        ProcessNoSpace,
        "No space left on device",
        r"(?:OSError|IOError|RuntimeError|\[Errno 28\]).{0,120}?No space left on device(?:[^\n']{0,4}'"
        r"(?P<path>[^']{1,160})')?",
    ),
    row(ProcessTooManyFiles, "Too many open files"),
    row(ProcessAddressInUse, "Errno 98", r"\[Errno 98\]"),
    row(
        ProcessLoaderError,
        "cannot open shared object file",
        r"(?:ImportError|OSError|loading shared libraries).{0,80}?"
        r"(?P<library>lib[\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file",
    ),
    row(
        ProcessLoaderError,
        "undefined symbol: ",
        r"(?:ImportError|OSError).{0,40}?(?P<library>[\w./+-]{1,160}\.so[\w.]{0,20}): undefined symbol: "
        r"(?P<symbol>\w{1,160})",
    ),
    row(ProcessLoaderError, "symbol lookup error", r"symbol lookup error: (?P<library>[^:\s]{1,160})"),
    row(
        ProcessLoaderError,
        "not found (required by",
        r"version [`'](?P<version>GLIBC(?:XX)?_[\d.]{1,12})' not found",
    ),
    row(ProcessInterrupted, "KeyboardInterrupt", r"^KeyboardInterrupt\b"),
    row(
        ProcessDiverged,
        ", stopping training",
        r"[Ll]oss is (?:nan|-?inf|tensor\(nan.{0,40}), stopping training",
    ),
    row(
        ProcessUsage,
        ": error: ",
        r"^(?P<reason>[\w./-]{1,80}: error: (?:unrecognized arguments|the following arguments are required|"
        r"argument).{0,200})",
    ),
    row(
        TorchException,
        "Error: ",
        rf"^{_LOGGED}(?P<name>(?:[A-Za-z_][\w]{{0,60}}\.){{0,8}}[A-Z]\w{{0,60}}Error): "
        r"(?P<message>(?![-+ ]?(?:[\d.]|nan\b|inf\b)).{1,300})",
    ),
    row(
        TorchException,
        "Exception: ",
        rf"^{_LOGGED}(?P<name>(?:[A-Za-z_][\w]{{0,60}}\.){{0,8}}[A-Z]?\w{{0,60}}Exception): "
        rf"(?P<message>.{{1,300}})",
    ),
    *(row(TorchException, name, rf"^(?P<name>{name})\s{{0,4}}$") for name in _BARE),
    row(ProcessWhat, "what():", r"^\s{0,8}what\(\):\s{1,4}(?P<text>.{1,300})"),
)

_SIGNALS = {
    "Segmentation fault": 11,
    "SIGSEGV": 11,
    "SIGKILL": 9,
    "Bus error": 7,
    "SIGBUS": 7,
    "Aborted": 6,
    "SIGABRT": 6,
    "Killed": 9,
    "SIGTERM": 15,
    "Illegal instruction": 4,
    "SIGILL": 4,
    "Floating point exception": 8,
    "Floating-point exception": 8,
    "SIGFPE": 8,
}
"""Numbers of Linux signals on x86 and Arm."""
_IGNORED = ("Exception ignored in", "Exception in thread ", "Error in atexit._run_exitfuncs")
"""Python's messages about exceptions in destructors, in threads and at exit, which do not end the program."""
_LINES_OF_TRACEBACK = 60
_MOST_PROCESSES = 10_000

_ERRNO = pattern(r"\[(?:Errno|WinError) (\d{1,4})\]")

SIGNS: tuple[bytes, ...] = (*signs(_ROWS), *FRAME_SIGNS, *(words.encode() for words in _IGNORED))


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return tuple(_completed(event, line.text) for event in read_rows(_ROWS, line))


def _completed(event: Event, text: str) -> Event:
    """Return the event with the number of the signal or the operating system's error number, if known."""
    match event.what:
        case ProcessSignal(signal=None) as end:
            return reporting(event, msgspec.structs.replace(end, signal=_SIGNALS.get(end.name or "")))
        case TorchException() as exception if (number := _ERRNO.search(text)) is not None:
            return reporting(event, msgspec.structs.replace(exception, errno=int(number[1])))
    return event


class Reader:
    """The ends of processes in one source, without exceptions that end no process."""

    def __init__(self) -> None:
        self._ignored: dict[tuple[str | None, int | None], int] = {}
        """Number of the last line in which the name of an ignored exception is expected, by process."""
        self._frames = Frames()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the event of one line."""
        place = (line.host, line.rank if line.rank is not None else line.local_rank)
        if any(words in line.text for words in _IGNORED):
            if len(self._ignored) < _MOST_PROCESSES:
                self._ignored[place] = line.number + _LINES_OF_TRACEBACK
            return ()
        if self._frames.take(place, line):
            return ()
        events = self._frames.ended(place, line, read(line))
        if any(carries(event, TorchException) for event in events) and line.number <= self._ignored.pop(
            place, 0
        ):
            return ()
        return events
