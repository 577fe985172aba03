"""Variables that commands get from a script, at each point of the script."""

from __future__ import annotations

from recipes.lint.document import Setting

Changes = dict[str, Setting | None]
"""The new setting of each variable; None if it was unset."""
_MOST_HANDED = 1_000_000
"""Settings that all commands of one file get together.

Without a limit, alternating exports and commands need quadratic memory.
"""


class Exported:
    """The variables that are exported now. Changes can be undone, as at the end of a subshell."""

    def __init__(self) -> None:
        self._now: dict[str, Setting] = {}
        self._before: list[tuple[str, Setting | None]] = []
        """Name and previous setting of each change."""
        self._handed: tuple[Setting, ...] | None = ()
        self._left = _MOST_HANDED

    def handed(self) -> tuple[Setting, ...]:
        """Return the variables that a command gets which starts now, each name once.

        After a million settings the result is empty: nobody writes such a file by hand.
        """
        if self._handed is None:
            self._left -= len(self._now)
            self._handed = tuple(self._now.values()) if self._left > 0 else ()
        return self._handed

    def get(self, name: str) -> Setting | None:
        return self._now.get(name)

    def put(self, name: str, setting: Setting | None) -> None:
        """Export a variable with this setting from here on, or unset it."""
        self._before.append((name, self._now.pop(name, None)))
        if setting is not None:
            self._now[name] = setting
        self._handed = None

    def mark(self) -> int:
        """Return a point to which `back_to` can return."""
        return len(self._before)

    def since(self, mark: int) -> Changes:
        """Return the changes since a mark."""
        return {name: self._now.get(name) for name, _ in self._before[mark:]}

    def back_to(self, mark: int) -> Changes:
        """Undo the changes since a mark, and return them."""
        undone = self.since(mark)
        while len(self._before) > mark:
            name, old = self._before.pop()
            self._now.pop(name, None)
            if old is not None:
                self._now[name] = old
        self._handed = None
        return undone

    def again(self, changes: Changes) -> None:
        """Repeat changes that were undone."""
        for name, setting in changes.items():
            self.put(name, setting)
