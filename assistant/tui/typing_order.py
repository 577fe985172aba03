"""Handle keys strictly one after the other.

Several keys may arrive at once: from a fast typist over a slow connection, a pasted line or a script. The
library Textual sends all of them to the widget that has the focus at that moment. A key that moves the focus
or opens a dialog takes effect only later, so the next keys would reach the wrong field, or the page behind
the dialog.
"""

import functools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.events import Event
from textual.message_pump import MessagePump
from textual.timer import Timer

_LONGEST_WAIT_S = 1.0
"""Time after which the next key is sent even if a removed widget never handled the last key."""


class TypingOrder:
    """Queue of keys: each key is sent after the key before it has had its effect."""

    def __init__(self, app: App[Any], send: Callable[[Event], Awaitable[None]]) -> None:
        """`send` gives a key to the widget that has the focus."""
        self._app = app
        self._send = send
        self._waiting: deque[Event] = deque()
        self._sent: Event | None = None
        self._timer: Timer | None = None

    async def add(self, key: Event) -> None:
        """Send `key` now, or after the keys before it."""
        self._waiting.append(key)
        if self._sent is None:
            await self._send_next()

    async def _send_next(self) -> None:
        if not self._waiting:
            return
        key = self._sent = self._waiting.popleft()
        path = list((self._app.focused or self._app.screen).ancestors_with_self)
        self._timer = self._app.set_timer(_LONGEST_WAIT_S, functools.partial(self._end, key))
        try:
            await self._send(key)
        finally:
            # The key passes from the widget up to the application, where its action runs. A message that the
            # action posts to the widget, such as a submitted form, passes up the same path again.
            self._follow(key, [*path, *path])

    def _follow(self, key: Event, path: list[MessagePump]) -> None:
        """Wait until each node of `path` in turn has handled the messages that it has received so far."""
        for place, node in enumerate(path):
            if node.call_later(self._follow, key, path[place + 1 :]):
                return
        # A screen that the key has opened sets its focus before it handles this callback.
        if not self._app.screen.call_later(self._finish, key):
            self._finish(key)

    def _finish(self, key: Event) -> None:
        self._app.call_later(self._end, key)

    async def _end(self, key: Event) -> None:
        """Send the next key, unless the handling of `key` had already ended."""
        if key is not self._sent:
            return
        self._sent = None
        if self._timer is not None:
            self._timer.stop()
        await self._send_next()
