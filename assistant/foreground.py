"""A child process in the foreground: it has this process's terminal, gets its signals and gives its exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from types import FrameType

from probes.errors import WorkerError

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_foreground(argv: tuple[str, ...]) -> int:
    """Run `argv` to its end and return its exit code; 128 plus the signal's number where a signal ended it, as shells do.

    SIGINT, SIGTERM and SIGHUP go on to the child, and this process waits for it. Where util-linux is installed the child
    gets SIGTERM even when this process is killed with SIGKILL. Raises WorkerError when it cannot be started.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise WorkerError(
            f"cannot start {argv[0]}: there is no such command", "is it installed on this machine, and on the PATH?"
        )
    guard = ("setpriv", "--pdeathsig", "TERM", "--") if shutil.which("setpriv") else ()
    try:
        child = subprocess.Popen((*guard, program, *argv[1:]))
    except OSError as error:
        raise WorkerError(
            f"cannot start {argv[0]}: {os.strerror(error.errno or 0).lower()}", "check the file's permissions"
        ) from error
    with _signals_forwarded_to(child):
        code = child.wait()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _signals_forwarded_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Only the main thread of a program may handle signals; elsewhere this does nothing."""

    def forward(number: int, _frame: FrameType | None) -> None:
        # The terminal has already sent its Ctrl-C to the child, and torchrun cuts its clean-up short at a second one.
        if number != signal.SIGINT or not _terminal_signals_us():
            child.send_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _terminal_signals_us() -> bool:
    """True when this process is in the foreground of a terminal, which signals the whole process group."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
