"""Records of how processes, their libraries and their shells went on and ended."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class ProcessRecord(LogRecord, kw_only=True):
    """The base of records of one process."""

    place: str | None = None
    """The innermost line of the program's own code: `train.py:98 in step`."""


class ProcessFrame(LogRecord, kw_only=True):
    """The innermost line of the program's own code in a traceback."""

    KIND: ClassVar[str] = "process.frame"
    place: str
    """`train.py:98 in step`."""
    ends: int
    """Number of the traceback's last line."""


class ProcessTerminated(ProcessRecord, kw_only=True):
    """C++ ended the process."""

    KIND: ClassVar[str] = "process.terminated"
    name: str | None = None
    """Class of the exception."""
    text: str | None = None


class ProcessWhat(ProcessRecord, kw_only=True):
    """The message of a C++ exception."""

    KIND: ClassVar[str] = "process.what"
    text: str


class ProcessSignal(ProcessRecord, kw_only=True):
    """A process ended by a signal."""

    KIND: ClassVar[str] = "process.signal"
    signal: int | None = None
    """Number or name of the signal."""
    name: str | None = None
    process: int | None = None


class ProcessOutOfMemory(ProcessRecord, kw_only=True):
    """The memory of the host or of a container is used up."""

    KIND: ClassVar[str] = "process.out-of-memory"
    scope: str | None = None
    """`container`, where its limit was met."""


class ProcessNoSpace(ProcessRecord, kw_only=True):
    """No space is left on a disk."""

    KIND: ClassVar[str] = "process.no-space"
    path: str | None = None


class ProcessTooManyFiles(ProcessRecord, kw_only=True):
    """The limit of open files is reached."""

    KIND: ClassVar[str] = "process.too-many-files"


class ProcessAddressInUse(ProcessRecord, kw_only=True):
    """A port is taken."""

    KIND: ClassVar[str] = "process.address-in-use"


class ProcessLoaderError(ProcessRecord, kw_only=True):
    """A shared library, a symbol or a version of glibc is missing."""

    KIND: ClassVar[str] = "process.loader-error"
    library: str | None = None
    """Path or version of the library."""
    symbol: str | None = None
    version: str | None = None


class ProcessInterrupted(ProcessRecord, kw_only=True):
    """A person ended the program with Ctrl-C."""

    KIND: ClassVar[str] = "process.interrupted"


class ProcessDiverged(ProcessRecord, kw_only=True):
    """A program ends because its loss is no number."""

    KIND: ClassVar[str] = "process.diverged"


class ProcessUsage(ProcessRecord, kw_only=True):
    """A program does not know its own arguments."""

    KIND: ClassVar[str] = "process.usage"
    reason: str


class TorchBusError(LogRecord, kw_only=True):
    """A data loader of torch ran out of /dev/shm."""

    KIND: ClassVar[str] = "torch.bus-error"
    shm: bool
    """Whether shared memory was too small."""


class TorchWorkerKilled(LogRecord, kw_only=True):
    """A worker of a data loader was killed."""

    KIND: ClassVar[str] = "torch.worker-killed"
    child: int | None = None
    signal: str | None = None
    """Number or name of the signal."""


class MpiAbort(LogRecord, kw_only=True):
    """A rank called MPI_Abort."""

    KIND: ClassVar[str] = "mpi.abort"
    rank: int | None = None
    code: int | None = None
    """Number of the error."""


class MpiProcessExit(LogRecord, kw_only=True):
    """A process that MPI started ended with an error."""

    KIND: ClassVar[str] = "mpi.process-exit"
    rank: int | None = None
    node: str | None = None
    signal: int | None = None
    """Number or name of the signal."""


class MpiLaunchFailed(LogRecord, kw_only=True):
    """MPI cannot start its processes."""

    KIND: ClassVar[str] = "mpi.launch-failed"
    reason: str | None = None


class MpiNoTransport(LogRecord, kw_only=True):
    """MPI finds no way to send between its processes."""

    KIND: ClassVar[str] = "mpi.no-transport"


class ProgramProgress(LogRecord, kw_only=True):
    """Lines that count steps follow a failure, so that its program goes on."""

    KIND: ClassVar[str] = "program.progress"
    after: int
    """Line of the failure."""
    who: str
    """`process` (the same rank), `log` (no line names a rank), `many` (a hundred lines) or `reported` (the
    program reports that it tries again).
    """


class ProgramFinished(LogRecord, kw_only=True):
    """A program says that it ended well."""

    KIND: ClassVar[str] = "program.finished"
    after: int
    """Line of the last failure before it, or 0."""


class TrainingNoNumber(LogRecord, kw_only=True):
    """The loss is no number."""

    KIND: ClassVar[str] = "training.no-number"
    value: str
