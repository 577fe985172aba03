"""Compile regular expressions when they are first used.

A live check loads the parsers of every possible answer, and `explain` the readers of every possible log line;
both need few of their patterns. Compiling all of them at the start takes 11 of the 120 ms of processor time
of a live check, and 60 of the 200 ms of `explain` (measured 2026-11).
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Late:
    """A stand-in for `re.compile(text, flags)` that compiles at the first use."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and keep the attribute for later."""
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that compiles at its first use, where an invalid text then raises `re.error`."""
    return cast("re.Pattern[str]", _Late(text, flags))
