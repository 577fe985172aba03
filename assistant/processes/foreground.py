"""Run a child in the foreground: it shares the terminal and gets the signals sent to this process."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from probes.base.errors import WorkerError

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TIED = Path(__file__).with_name("tied.py")


def run_in_foreground(argv: tuple[str, ...]) -> int:
    """Run `argv` to its end and return its exit code, 128 + N after signal N, as shells do.

    SIGINT, SIGTERM and SIGHUP are forwarded to the child, except a SIGINT that the terminal sent to both.
    This process waits until the child ends. On Linux the child gets SIGTERM even if this process is killed
    with SIGKILL. Raises WorkerError if the child cannot be started.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise WorkerError(
            f"cannot start {argv[0]}: there is no such command",
            "is it installed on this machine, and on the PATH?",
        )
    relay = _Relay()
    with _handled_by(relay):
        try:
            child = subprocess.Popen(
                (sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), program, *argv[1:])
            )
        except OSError as error:
            raise WorkerError(
                f"cannot start {argv[0]}: {str(error.strerror).lower()}",
                "check the limits of this shell (ulimit -a)",
            ) from error
        relay.connect(child)
        code = child.wait()
    return 128 - code if code < 0 else code


class _Relay:
    """Forward signals to the child, also those that arrive while it is being started."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def connect(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        # The terminal has already sent SIGINT to the child, and after a second SIGINT torchrun ends without
        # completing its clean-up.
        if number == signal.SIGINT and _terminal_signals_us():
            return
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


@contextlib.contextmanager
def _handled_by(relay: _Relay) -> Iterator[None]:
    """Handle the forwarded signals with `relay` inside the body.

    Signals that are ignored, as under nohup, stay ignored. Only the main thread may handle signals; in other
    threads this function does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {
        number: signal.signal(number, relay)
        for number in _FORWARDED
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _terminal_signals_us() -> bool:
    """Return whether this process is in the foreground of a terminal.

    The terminal then sends its signals to the whole process group.
    """
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
