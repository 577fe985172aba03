"""Omission of repeated text: 10,000 ranks report the same facts of a host."""

from __future__ import annotations

from collections.abc import Hashable

_MOST = 16_384


class Once:
    """Known things in bounded memory.

    All are forgotten when it is full: things may then come again, and never get lost.
    """

    def __init__(self) -> None:
        self._known: set[Hashable] = set()

    def is_new(self, thing: Hashable) -> bool:
        """Return whether `thing` comes for the first time."""
        if thing in self._known:
            return False
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.add(thing)
        return True
