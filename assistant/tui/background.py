"""Runs a use-case beside the terminal UI and posts its events.

Textual's own thread workers are joined when the app ends, so a command that hangs would hold the terminal.
These threads are daemons: leaving never waits for a reader. A benchmark is told to stop and gets a moment to
end its processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from textual.message import Message

from assistant.usecases.events import Event

Stop = Callable[[], bool]
"""True once the user wants the stage to end."""


class StageEvent(Message):
    """A use-case tells something."""

    def __init__(self, run: StageRun, event: Event) -> None:
        super().__init__()
        self.run = run
        self.event = event


class StageEnded(Message):
    """A use-case is over; `error` is what it raised."""

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
        """Ask the use-case to end; it does so at its next event, or at once where it watches for this."""
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def wait(self, timeout_s: float) -> bool:
        """True when the thread ended within `timeout_s`."""
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
                    self._tell(StageEvent(self, event))
            finally:
                close = getattr(events, "close", None)
                if close is not None:
                    close()
        except Exception as raised:  # noqa: BLE001  the front end's one boundary: shown as a problem or an error screen
            error = raised
        self._tell(StageEnded(self, error))

    def _tell(self, message: Message) -> None:
        try:
            self._post(message)
        except RuntimeError:
            # The app ended and closed its event loop: nobody listens any more.
            self._stop.set()
