"""How a process ended, in its own words or its shell's: Python and C++ tracebacks, signals, MPI aborts.

Kinds: torch.exception{name, message, errno, place}: the last line of a Python traceback; place is the
innermost line of the program's own code (`train.py:98 in step`), which any event of such a last line has.
process.frame{place, ends}: that line, and the number of the last one. process.terminated{name},
process.what{text}: C++. process.signal{signal, name, process}: SIGBUS, SIGSEGV and others, by the shell,
Python's faulthandler, MPI or a data loader. torch.bus-error{shm}: a data loader of torch ran out of /dev/shm.
torch.worker-killed{child, signal}. process.out-of-memory{scope}: the host's memory, by Python (`MemoryError`,
`Cannot allocate memory`), C++ (`std::bad_alloc`), Kubernetes (`OOMKilled`, of scope `container`) or Ray.
process.no-space{path}, process.too-many-files{}. process.address-in-use{port}. process.loader-error{library,
symbol, version}: a shared library, a symbol or a version of glibc that is not there. mpi.abort{rank, code},
mpi.process-exit{rank, node, code, signal}, mpi.launch-failed{reason}, mpi.no-transport{reason}: Open MPI,
MPICH and Intel MPI. process.interrupted{}: by Ctrl-C. process.diverged{}: a program ends because its loss is
no number. process.usage{reason}: a program does not know its own arguments (argparse).

Source: open-mpi/ompi help texts, pmodels/mpich hydra, CPython faulthandler.c, glibc, pytorch torch/utils/data
(read 2026-11).
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import Event
from probes.logs.frames import SIGNS as FRAME_SIGNS
from probes.logs.frames import Frames
from probes.logs.line import LogLine
from probes.logs.readers.row_readers import read_rows, row, signs

_LOGGED = (
    r"(?:(?:stderr|(?:python|torchrun|bash)[\d.]{0,6}|(?=[\w.-]{0,60}\d)[A-Za-z][\w.-]{1,60}|\w{1,30}\[\d{1,9}\]): |"
    r"[\w.-]{1,60} {1,4}\| )?(?:(?:ERROR|CRITICAL) [\d:. -]{8,26} ?\[?[\w./]{1,80}\.py:\d{1,6}\]:? )?"
)
"""What launchers (a host, a container, a stream) and vLLM's logger put before each line of a traceback."""
_BARE = ("AssertionError", "NotImplementedError", "EOFError", "TimeoutError", "StopIteration")
"""Exceptions that often say nothing but their name."""
_ROWS = (
    row(
        "torch.bus-error",
        "insufficient shared memory (shm)",
        shm=1,
    ),
    row(
        "torch.worker-killed",
        "is killed by signal",
        r"DataLoader worker \(pid\(?s?\)? ?(?P<child>\d{1,10})[^)]{0,80}\) (?:is killed by signal|exited unexpectedly)"
        r"(?:: (?P<signal>[A-Z][\w ]{2,30}))?",
    ),
    row(
        "torch.worker-killed",
        "exited unexpectedly",
        r"DataLoader worker \(pid(?:\(s\))? (?P<child>\d{1,10})[\d, ]{0,80}\) exited unexpectedly",
    ),
    row(
        "process.signal",
        "terminated with signal SIG",
        r"process (?P<process>\d{1,6}) terminated with signal (?P<name>SIG[A-Z]{2,6})",
    ),
    row("process.signal", "Fatal Python error: ", r"Fatal Python error: (?P<name>[A-Z][\w ]{2,40})"),
    row("process.signal", "Signal: ", r"Signal: (?P<name>[A-Z][\w ]{2,30}) \((?P<signal>\d{1,2})\)"),
    row(
        "process.signal",
        "*** SIG",
        r"\*\*\* (?P<name>SIG[A-Z]{2,6}) \(@0x[0-9a-f]{1,16}\) received by PID (?P<process>\d{1,10})",
    ),
    row(
        "process.signal",
        "aught signal ",
        r"[Cc]aught signal (?P<signal>\d{1,2}) \((?P<name>[A-Z][\w ]{2,30})(?:: [^)]{1,80})?\)",
    ),
    row(
        "process.signal",
        "(core dumped)",
        r"(?P<name>Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)\s{1,40}\(core dumped\)",
    ),
    row(
        "process.signal",
        "Bus error",
        r"^(?:.{0,120}: line \d{1,6}:\s{1,8}(?P<process>\d{1,10})\s{1,4})?(?P<name>Bus error)\s{0,40}(?:[\w./$\"-].{0,200})?$",
    ),
    row(
        "process.signal",
        "Segmentation fault",
        r"^(?:.{0,120}: line \d{1,6}:\s{1,8}(?P<process>\d{1,10})\s{1,4})?(?P<name>Segmentation fault)\b",
    ),
    row(
        "process.signal", " Killed ", r": line \d{1,6}:\s{1,8}(?P<process>\d{1,10})\s{1,4}(?P<name>Killed)\s"
    ),
    row("process.signal", "Killed", r"^(?P<name>Killed)\s{0,8}$"),
    row("process.signal", "Process received signal", r"\*\*\* (?P<name>Process received signal) \*\*\*"),
    row(
        "process.terminated",
        "terminate called",
        r"terminate called (?:after throwing an instance of '(?P<name>[^']{1,120})'|"
        r"(?P<text>recursively|without an active exception))",
    ),
    row("mpi.abort", "MPI_ABORT was invoked", r"MPI_ABORT was invoked on rank (?P<rank>\d{1,7})"),
    row(
        "mpi.abort",
        "MPI_Abort(",
        r"MPI_Abort\((?:[^,)]{0,60}, ?)?(?P<code>-?\d{1,10})\)(?: - process (?P<rank>\d{1,7}))?",
    ),
    row(
        "mpi.process-exit",
        " exited on signal ",
        r"process rank (?P<rank>\d{1,7}) with PID \d{1,10} on node (?P<node>\S{1,120}) exited on signal (?P<signal>\d{1,2})",
    ),
    row(
        "mpi.process-exit",
        "exited with non-zero status",
        r"(?:Process name: \[\[\d{1,9},\d{1,9}\],(?P<rank>\d{1,7})\])?.{0,200}exited with non-zero status",
    ),
    row("mpi.process-exit", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
    row(
        "mpi.process-exit",
        "APPLICATION TERMINATED WITH THE EXIT STRING",
        r"EXIT STRING: .{1,40}\(signal (?P<signal>\d{1,2})\)",
    ),
    row("mpi.process-exit", "KILLED BY SIGNAL: ", r"KILLED BY SIGNAL: (?P<signal>\d{1,2})"),
    row("mpi.launch-failed", "ORTE was unable to reliably start one or more daemons"),
    row("mpi.launch-failed", "PRTE has lost communication with a remote daemon"),
    row("mpi.launch-failed", "ORTE has lost communication with a remote daemon"),
    row(
        "mpi.launch-failed",
        "There are not enough slots available in the system",
        r"(?P<reason>not enough slots available)",
    ),
    row("mpi.launch-failed", "Host key verification failed", r"(?P<reason>Host key verification failed)"),
    row(
        "mpi.launch-failed", "_init failed for some reason", r"It looks like (?P<reason>\w{3,20}_init failed)"
    ),
    row("mpi.launch-failed", "It looks like MPI_INIT failed", r"(?P<reason>MPI_INIT failed)"),
    row("mpi.no-transport", "No components were able to be opened in the pml framework"),
    row("mpi.no-transport", "At least one pair of MPI processes are unable to reach each other"),
    row("process.out-of-memory", "std::bad_alloc"),
    row("process.out-of-memory", "OOMKilled", scope="container"),
    row("process.out-of-memory", "killed due to memory pressure (OOM)"),
    row("process.out-of-memory", "ray.exceptions.OutOfMemoryError"),
    row("process.out-of-memory", "MemoryError", r"(?:^|[\s._]|_Array)MemoryError(?:\b|$)"),
    row("process.out-of-memory", "not enough memory: you tried to allocate"),
    row(
        "process.out-of-memory",
        "DefaultCPUAllocator: ",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
    ),
    row("process.out-of-memory", "The node was low on resource: memory"),
    row(
        "torch.bus-error",
        "No space left on device",
        r"unable to (?:write to|resize|allocate).{0,40}</?torch_[^>]{0,80}>.{0,60}No space",
        shm=1,
    ),
    row(
        "process.out-of-memory",
        "Cannot allocate memory",
        r"(?:OSError|RuntimeError|BlockingIOError|fork).{0,80}Cannot allocate memory",
    ),
    row(
        "process.no-space",
        "No space left on device",
        r"(?:OSError|IOError|RuntimeError|\[Errno 28\]).{0,120}?No space left on device(?:[^\n']{0,4}'(?P<path>[^']{1,160})')?",
    ),
    row("process.too-many-files", "Too many open files"),
    row("process.address-in-use", "Errno 98", r"\[Errno 98\]"),
    row(
        "process.loader-error",
        "cannot open shared object file",
        r"(?:ImportError|OSError|loading shared libraries).{0,80}?"
        r"(?P<library>lib[\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file",
    ),
    row(
        "process.loader-error",
        "undefined symbol: ",
        r"(?:ImportError|OSError).{0,40}?(?P<library>[\w./+-]{1,160}\.so[\w.]{0,20}): undefined symbol: (?P<symbol>\w{1,160})",
    ),
    row("process.loader-error", "symbol lookup error", r"symbol lookup error: (?P<library>[^:\s]{1,160})"),
    row(
        "process.loader-error",
        "not found (required by",
        r"version [`'](?P<version>GLIBC(?:XX)?_[\d.]{1,12})' not found",
    ),
    row("process.interrupted", "KeyboardInterrupt", r"^KeyboardInterrupt\b"),
    row(
        "process.diverged",
        ", stopping training",
        r"[Ll]oss is (?:nan|-?inf|tensor\(nan.{0,40}), stopping training",
    ),
    row(
        "process.usage",
        ": error: ",
        r"^(?P<reason>[\w./-]{1,80}: error: (?:unrecognized arguments|the following arguments are required|argument).{0,200})",
    ),
    row(
        "torch.exception",
        "Error: ",
        rf"^{_LOGGED}(?P<name>(?:[A-Za-z_][\w]{{0,60}}\.){{0,8}}[A-Z]\w{{0,60}}Error): "
        r"(?P<message>(?![-+ ]?(?:[\d.]|nan\b|inf\b)).{1,300})",
    ),
    row(
        "torch.exception",
        "Exception: ",
        rf"^{_LOGGED}(?P<name>(?:[A-Za-z_][\w]{{0,60}}\.){{0,8}}[A-Z]?\w{{0,60}}Exception): (?P<message>.{{1,300}})",
    ),
    *(row("torch.exception", name, rf"^(?P<name>{name})\s{{0,4}}$") for name in _BARE),
    row("process.what", "what():", r"^\s{0,8}what\(\):\s{1,4}(?P<text>.{1,300})"),
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
"""Numbers of Linux on x86 and Arm."""
_IGNORED = ("Exception ignored in", "Exception in thread ", "Error in atexit._run_exitfuncs")
"""Python says so of what is raised by threads and while objects are torn down, which ends no program."""
_LINES_OF_TRACEBACK = 60
_MOST_PROCESSES = 10_000

_ERRNO = pattern(r"\[(?:Errno|WinError) (\d{1,4})\]")

SIGNS: tuple[bytes, ...] = (*signs(_ROWS), *FRAME_SIGNS, *(words.encode() for words in _IGNORED))


def read(line: LogLine) -> tuple[Event, ...]:
    """The event of one line."""
    events = read_rows(_ROWS, line)
    for event in events:
        if event.kind == "process.signal" and "signal" not in event.fields:
            number = _SIGNALS.get(str(event.fields.get("name", "")))
            event.fields.update({} if number is None else {"signal": number})
        if event.kind == "torch.exception" and (match := _ERRNO.search(line.text)) is not None:
            event.fields["errno"] = int(match[1])
    return events


class Reader:
    """The ends of one source's processes, without the exceptions that end none."""

    def __init__(self) -> None:
        self._ignored: dict[tuple[str | None, int | None], int] = {}
        """Up to which line the exception of a process is one that Python ignores."""
        self._frames = Frames()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """The event of one line."""
        place = (line.host, line.rank if line.rank is not None else line.local_rank)
        if any(words in line.text for words in _IGNORED):
            if len(self._ignored) < _MOST_PROCESSES:
                self._ignored[place] = line.number + _LINES_OF_TRACEBACK
            return ()
        if self._frames.take(place, line):
            return ()
        events = self._frames.ended(place, line, read(line))
        if any(event.kind == "torch.exception" for event in events) and line.number <= self._ignored.pop(
            place, 0
        ):
            return ()
        return events

    def end(self) -> tuple[Event, ...]:
        """Nothing is held back."""
        return ()
