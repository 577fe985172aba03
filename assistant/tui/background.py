"""Run a use case in a thread beside the terminal UI and post its events.

Textual joins its own thread workers when the app ends, so that a command that hangs would block the terminal.
These threads are daemons: leaving never waits for a reader. A benchmark is asked to stop and gets a moment to
end its processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from textual.message import Message

from assistant.usecases.events import Event

Stop = Callable[[], bool]
"""A function that returns True once the user wants the stage to end."""


class StageEvent(Message):
    """An event of a use case."""

    def __init__(self, run: StageRun, event: Event) -> None:
        super().__init__()
        self.run = run
        self.event = event


class StageEnded(Message):
    """The end of a use case; `error` is the exception that it raised."""

    def __init__(self, run: StageRun, error: Exception | None) -> None:
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
        """Ask the use case to end at its next event, or at once if it watches for this."""
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
                close = getattr(events, "close", None)
                if close is not None:
                    close()
        except Exception as raised:  # noqa: BLE001  shown as a problem or a bug
            error = raised
        self._send(StageEnded(self, error))

    def _send(self, message: Message) -> None:
        try:
            self._post(message)
        except RuntimeError:
            # The app ended and closed its event loop: nothing receives messages any more.
            self._stop.set()
