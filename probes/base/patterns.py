"""Compile regular expressions when they are first used.

A live check loads the parsers of every possible output, and `explain` loads the readers of every possible log
line; both use only a few of the patterns. Compiling all patterns at the start would take 11 of the 120 ms of
processor time of a live check, and 60 of the 200 ms of `explain` (measured 2026-11).
"""

import re
from typing import Any, cast


class _Late:
    """A stand-in for `re.compile(text, flags)` that compiles at the first use."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and store the attribute for later."""
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that compiles at its first use; an invalid pattern raises `re.error` only then."""
    return cast("re.Pattern[str]", _Late(text, flags))
