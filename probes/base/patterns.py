"""Compile regular expressions when they are first used.

A live check loads the parsers of everything that a machine may say, and `explain` the readers of everything
that a log may say; both need few of their patterns. Compiling all of them at the start takes 11 ms of a live
check's 120 ms of processor time and 60 ms of 200 of `explain` (measured 2026-11).
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Late:
    """Stands for `re.compile(text, flags)`."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the compiled pattern, and keep it, so that it is asked for once."""
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return the like of `re.compile`, with the attributes and methods of its result; `re.error` comes at
    the first use."""
    return cast("re.Pattern[str]", _Late(text, flags))
