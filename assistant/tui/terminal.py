"""Detect that the terminal of the UI was closed."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable

WATCH_INTERVAL_S = 1.0
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


def terminal_descriptor() -> int | None:
    """Return the file descriptor of the terminal on standard input; None without a terminal, as in tests."""
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return descriptor if os.isatty(descriptor) else None


def has_hung_up(descriptor: int) -> bool:
    """Return whether the other end is gone: the window was closed or the connection lost.

    The kernel also sends SIGHUP, but only to the session's own processes, and a user may ignore it (nohup).
    Textual's input thread would run in a busy loop on such a terminal.
    """
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & _GONE for _, events in poll.poll(0))


def leave_with_terminal(descriptor: int, leave: Callable[[], object], timeout_s: float) -> None:
    """Call `leave` from a thread when the terminal is gone, and end the process `timeout_s` later.

    Textual's writer thread ends at the first write to a terminal that is gone, and the next writer waits for
    it for ever; then no timer of the UI fires any more.
    """

    def watch() -> None:
        while not has_hung_up(descriptor):
            time.sleep(WATCH_INTERVAL_S)
        leave()
        time.sleep(timeout_s)
        os._exit(0)

    threading.Thread(target=watch, name="terminal", daemon=True).start()
