"""Errors that a user can fix, and the exit codes.

    RigtuneError
    ├── UsageError          wrong arguments, names or settings        exit 2
    │   └── InputError      a file given by the user is unreadable    exit 2
    ├── InterpreterError    no usable training interpreter            exit 4
    ├── WorkerError         a benchmark or training worker failed     exit 4
    ├── NoFeasiblePlanError nothing fits the given machine            exit 5
    ├── ResourceError       no memory or no thread for rigtune itself exit 2
    ├── StoppedError        the user ended the work early           exit 130
    └── OutputError         the output could not be written           exit 2

Machine conditions are values (`Unknown`, `Finding`, `BenchFailure`), never exceptions. Other subclasses of
`Exception` are bugs: they keep their traceback, and the exit code is 70.
"""

import enum


class ExitCode(enum.IntEnum):
    """The exit codes. They never change, because scripts depend on these numbers."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNKNOWN = 3
    WORKER = 4
    NO_PLAN = 5
    BUG = 70
    """A bug in rigtune itself (EX_SOFTWARE in sysexits.h)."""
    INTERRUPTED = 130


class RigtuneError(Exception):
    """An error that the user can fix; the hint proposes a fix, or is empty."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RigtuneError):
    """A wrong argument, name or setting."""


class InputError(UsageError):
    """A file from the user that cannot be read as expected."""


class OutputError(RigtuneError):
    """A file or folder that cannot be written."""


class ResourceError(RigtuneError):
    """The system does not give this process enough memory, or no further thread."""

    def __init__(self, lack: str) -> None:
        super().__init__(
            f"the system gives rigtune {lack}",
            "raise the limits of this shell or job (ulimit -v, ulimit -u, memory of the cgroup)",
        )


class InterpreterError(RigtuneError):
    """A missing or unusable Python interpreter with torch."""

    exit_code = ExitCode.WORKER


class WorkerError(RigtuneError):
    """A worker or training process that failed."""

    exit_code = ExitCode.WORKER


class StoppedError(RigtuneError):
    """The user ended the work.

    The message names the results that were saved, and the hint explains how to use them.
    """

    exit_code = ExitCode.INTERRUPTED


class NoFeasiblePlanError(RigtuneError):
    """No plan fits the machine, or the machine's memory is unknown; the message states the reason."""

    exit_code = ExitCode.NO_PLAN
