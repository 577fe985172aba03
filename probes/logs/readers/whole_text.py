"""Leaving out what was said before: 10 000 ranks tell the same of the same host."""

from __future__ import annotations

from collections.abc import Hashable

_MOST = 16_384


class Once:
    """What is known already, in bounded memory: it forgets all when it is full, so that things may come
    again, never get lost.
    """

    def __init__(self) -> None:
        self._known: set[Hashable] = set()

    def is_new(self, thing: Hashable) -> bool:
        """Whether `thing` comes for the first time."""
        if thing in self._known:
            return False
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.add(thing)
        return True
