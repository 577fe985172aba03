"""Parse CPU and node lists as the kernel prints them: `0-51,104-155`."""

from __future__ import annotations

import re

from probes.base.record import Reason, Unknown

_LIST = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*")
_MOST = 1 << 16
"""Most entries of a list; no kernel is built for as many (CONFIG_NR_CPUS is at most 8192 on x86)."""


def is_cpu_list(text: str) -> bool:
    """Return whether the text is a list in the kernel's format with at least one entry."""
    return _LIST.fullmatch(text) is not None


def parse_cpu_list(text: str) -> tuple[int, ...] | Unknown:
    """Return the numbers of a list, in its order.

    An empty text is an empty list, as for a node without CPUs.
    """
    text = text.strip()
    if not text:
        return ()
    if not is_cpu_list(text):
        return Unknown(Reason.UNPARSABLE, f"{text[:60]!r} is not a CPU list")
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        start, end = int(first), int(last or first)
        if end < start or end - start + len(numbers) > _MOST:
            return Unknown(Reason.UNPARSABLE, f"{text[:60]!r} is not a CPU list")
        numbers.extend(range(start, end + 1))
    return tuple(numbers)
