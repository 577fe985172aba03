"""Omission of repeated text: 10,000 ranks report the same facts of a host."""

from __future__ import annotations

from collections.abc import Hashable

_MOST = 16_384


class Once:
    """A bounded set of the items seen so far.

    When the set is full it is cleared: an item may then be reported twice, but none is lost.
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
