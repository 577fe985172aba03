"""What commands get from a script, at each point of it."""

from __future__ import annotations

from recipes.lint.document import Setting

Changes = dict[str, Setting | None]
"""What each variable became; None where it was unset."""
_MOST_HANDED = 1_000_000
"""Settings that all commands of one file are told together: exports and commands may take turns without
end.
"""


class Exported:
    """The variables that are exported now. Steps can be taken back, as at the end of a subshell."""

    def __init__(self) -> None:
        self._now: dict[str, Setting] = {}
        self._before: list[tuple[str, Setting | None]] = []
        """Of each change, the name and what it held."""
        self._handed: tuple[Setting, ...] | None = ()
        self._left = _MOST_HANDED

    def handed(self) -> tuple[Setting, ...]:
        """What a command that starts now gets, each name once; nothing after a million, where none writes by
        hand.
        """
        if self._handed is None:
            self._left -= len(self._now)
            self._handed = tuple(self._now.values()) if self._left > 0 else ()
        return self._handed

    def get(self, name: str) -> Setting | None:
        return self._now.get(name)

    def put(self, name: str, setting: Setting | None) -> None:
        """It is exported with this from here on, or unset."""
        self._before.append((name, self._now.pop(name, None)))
        if setting is not None:
            self._now[name] = setting
        self._handed = None

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._before)

    def since(self, mark: int) -> Changes:
        """What has changed since then."""
        return {name: self._now.get(name) for name, _ in self._before[mark:]}

    def back_to(self, mark: int) -> Changes:
        """Undo what has changed since then, and tell it."""
        undone = self.since(mark)
        while len(self._before) > mark:
            name, old = self._before.pop()
            self._now.pop(name, None)
            if old is not None:
                self._now[name] = old
        self._handed = None
        return undone

    def again(self, changes: Changes) -> None:
        """Make them once more."""
        for name, setting in changes.items():
            self.put(name, setting)
