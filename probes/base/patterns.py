"""Regular expressions that are compiled when they are first used.

A live check loads the readers of everything that a machine may say and needs few of their patterns; compiling
all of them would take longer than reading the machine.
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
        """What the compiled pattern has under `name`; kept, so that it is asked for once."""
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, with the attributes and methods of its result; `re.error` comes at the first use."""
    return cast("re.Pattern[str]", _Late(text, flags))
