"""Run commands, each with a deadline and a bound on its output."""

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import threading
import time

from probes.base.record import Reason, Unknown, printable
from probes.base.units import MIB
from probes.sources.base import CommandResult

MAX_OUTPUT_BYTES = 32 * MIB
_START_S = 1.0
"""Seconds that `close` waits for a starting command; a program on a dead network mount never starts."""
_RETRY_AFTER_S = 60.0
"""Seconds during which a program that hung is not started again.

If the driver hangs, every start would cost the whole deadline.
"""
_REAP_S = 1.0
"""Seconds that a killed process may take to end; a process that waits inside a driver never ends."""


class CommandRunner:
    """Runs commands for any number of threads, and can end them all."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._starting = 0
        self._closed = False
        self._change = threading.Condition()
        self._hung: dict[str, tuple[float, Unknown]] = {}
        """Time and failure of each program that hung."""

    def run(
        self, argv: tuple[str, ...], *, timeout_s: float, max_output_bytes: int = MAX_OUTPUT_BYTES
    ) -> CommandResult:
        """Run `argv` without a shell or input, in the C locale, as its own process group.

        The whole group is killed at the deadline, or when the command writes more than `max_output_bytes`;
        the result contains the output until then. If a command cannot start, does not end or writes too much,
        the result has a `failure`; no exception is raised. A program that hung is not started again for a
        while: later runs fail at once with the same reason.
        """
        name = printable(argv[0])
        missing = CommandResult(failure=Unknown(Reason.TOOL_MISSING, f"{name} is not installed"))
        program = path_of_program(argv[0])
        if program is None:
            return missing  # saves the cost of a fork
        since, hung = self._hung.get(argv[0], (0.0, None))
        if hung is not None and time.monotonic() - since < _RETRY_AFTER_S:
            return CommandResult(failure=hung)
        try:
            process = self._start(argv, program)
        except FileNotFoundError:
            return missing
        except OSError as error:
            reason = Reason.PERMISSION if isinstance(error, PermissionError) else Reason.ERROR
            return CommandResult(failure=Unknown(reason, f"{name}: {error.strerror}"))
        try:
            result = _result(process, name, timeout_s, max_output_bytes)
        finally:
            with self._change:
                self._running.discard(process)
        if result.failure is not None and result.failure.reason is Reason.TIMEOUT:
            self._hung[argv[0]] = time.monotonic(), result.failure
        return result

    def close(self) -> None:
        """Kill all running and starting commands. Threads that wait for them continue; later runs fail."""
        with self._change:
            self._closed = True
            self._change.wait_for(lambda: not self._starting, _START_S)
            for process in self._running:
                signal_group(process)

    def _start(self, argv: tuple[str, ...], program: str) -> subprocess.Popen[bytes]:
        """Start `program` under the name and with the arguments of `argv`.

        Raises OSError if the start fails.
        """
        with self._change:
            if self._closed:
                raise ProcessLookupError(errno.ESRCH, "not started, because rigtune is ending")
            self._starting += 1
        process = None
        try:
            process = subprocess.Popen(
                argv,
                executable=program,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
            return process
        finally:
            with self._change:
                self._starting -= 1
                if process is not None:
                    self._running.add(process)
                self._change.notify_all()


def path_of_program(name: str) -> str | None:
    """Return the path of the program that PATH selects; None if there is none.

    Only absolute folders of PATH count, so that nothing from the current folder is started. A name with a
    slash is a path already. `shutil.which` is not used, because its module loads three compression libraries.
    """
    if "/" in name:
        return name
    folders = (folder for folder in os.get_exec_path() if folder.startswith("/"))
    paths = (os.path.join(folder, name) for folder in folders)  # noqa: PTH118 - once per folder and command
    for path in paths:
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            return path
    return None


def _result(
    process: subprocess.Popen[bytes], name: str, timeout_s: float, max_output_bytes: int
) -> CommandResult:
    """Wait until `process` ends or kill the process at its deadline, and return the result."""
    deadline = time.monotonic() + timeout_s
    try:
        output, complete = _collect(process, deadline, max_output_bytes)
        if complete:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0))
    except BaseException:
        kill_group(process)
        raise
    unfinished = process.returncode is None
    if unfinished:
        kill_group(process)
    else:
        close_pipes(process)
    failure = None
    if sum(map(len, output)) > max_output_bytes:
        failure = Unknown(Reason.ERROR, f"{name} wrote more than {max_output_bytes} bytes")
    elif unfinished and process.returncode in (None, -signal.SIGKILL):
        failure = Unknown(Reason.TIMEOUT, f"{name} took longer than {timeout_s:g} s")
    stdout, stderr = output
    return CommandResult(
        exit_code=process.returncode or 0, stdout=bytes(stdout), stderr=bytes(stderr), failure=failure
    )


def signal_group(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a process that was not waited for, to its group, and to its other descendants."""
    if process.returncode is None:
        import psutil  # noqa: PLC0415 - few commands hang

        with contextlib.suppress(psutil.Error, OSError):
            for descendant in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    descendant.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was not waited for, with its whole group, and reap it if possible.

    If the process had already ended and only a helper process kept the pipes open, the exit code is kept.
    """
    signal_group(process)
    close_pipes(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    """Close this side of the pipes of `process`."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _collect(
    process: subprocess.Popen[bytes], deadline: float, max_output_bytes: int
) -> tuple[tuple[bytearray, bytearray], bool]:
    """Return standard output and error, and True if both ended before the deadline and within the bound."""
    output = (bytearray(), bytearray())
    with selectors.DefaultSelector() as selector:
        for pipe, buffer in zip((process.stdout, process.stderr), output, strict=True):
            if pipe is not None:
                selector.register(pipe.fileno(), selectors.EVENT_READ, buffer)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0 or sum(map(len, output)) > max_output_bytes:
                return output, False
            for key, _ in selector.select(remaining):
                chunk = os.read(key.fd, 1 << 16)
                if chunk:
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fd)
    return output, True
