"""Run threads beside the terminal UI: use cases that post their events, and a watch on the terminal.

When the app ends, the library Textual waits for its own worker threads, so a command that hangs would block
the terminal. The threads of this module are daemons: the end of the app does not wait for them. All
use cases are requested to stop, but only a benchmark gets a short time to end its processes.
"""

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator

from textual.message import Message

from assistant.usecases.events import Event

WATCH_INTERVAL_S = 1.0
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
Stop = Callable[[], bool]
"""A function that returns True once the user wants the stage to end."""


class StageEvent(Message):
    """An event of a use case."""

    def __init__(self, run: "StageRun", event: Event) -> None:
        super().__init__()
        self.run = run
        self.event = event


class StageEnded(Message):
    """The end of a use case; `error` is the exception that it raised."""

    def __init__(self, run: "StageRun", error: Exception | None) -> None:
        super().__init__()
        self.run = run
        self.error = error


class StageRun:
    """One run of one stage in its own thread."""

    def __init__(
        self, stage: str, make_events: Callable[[Stop], Iterator[Event]], post: Callable[[Message], object]
    ) -> None:
        self.stage = stage
        self._make_events = make_events
        self._post = post
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"rigtune-{stage}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Request the end of the use case, which ends at its next event, or at once if it polls."""
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the thread, and return whether it ended within `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        error: Exception | None = None
        try:
            events = self._make_events(self._stop.is_set)
            try:
                for event in events:
                    if self._stop.is_set():
                        break
                    self._send(StageEvent(self, event))
            finally:
                if isinstance(events, Generator):
                    events.close()
        except Exception as raised:  # noqa: BLE001  shown as a problem or a bug
            error = raised
        self._send(StageEnded(self, error))

    def _send(self, message: Message) -> None:
        try:
            self._post(message)
        except RuntimeError:
            # The app ended and closed its event loop, so no message can be delivered any more.
            self._stop.set()


def terminal_descriptor() -> int | None:
    """Return the file descriptor of the terminal on standard input; None without a terminal, as in tests."""
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return descriptor if os.isatty(descriptor) else None


def has_hung_up(descriptor: int) -> bool:
    """Return whether the other end of the terminal is gone: the window was closed or the connection was lost.

    The kernel also sends SIGHUP, but only to processes of the session, and the signal may be ignored (nohup).
    Textual's input thread would run in a busy loop on such a terminal.
    """
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & _GONE for _, events in poll.poll(0))


def leave_with_terminal(descriptor: int, leave: Callable[[], object], timeout_s: float) -> None:
    """Call `leave` from a thread when the terminal is gone, and end the process `timeout_s` later.

    Textual's writer thread ends at the first write to a terminal that is gone. The next write then waits for
    this thread forever, and no timer of the UI runs any more.
    """

    def watch() -> None:
        while not has_hung_up(descriptor):
            time.sleep(WATCH_INTERVAL_S)
        leave()
        time.sleep(timeout_s)
        os._exit(0)

    threading.Thread(target=watch, name="terminal", daemon=True).start()
