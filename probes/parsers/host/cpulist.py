"""CPU and node lists as the kernel writes them: `0-51,104-155`."""

from __future__ import annotations

import re

from probes.base.record import Reason, Unknown

_LIST = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*")
_MOST = 1 << 16
"""More entries than any kernel is built for (CONFIG_NR_CPUS is at most 8192 on x86): a damaged text."""


def is_cpu_list(text: str) -> bool:
    """True for a list in the kernel's format with at least one entry."""
    return _LIST.fullmatch(text) is not None


def parse_cpu_list(text: str) -> tuple[int, ...] | Unknown:
    """The numbers of a list, in its order. An empty text is an empty list: a node without CPUs."""
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
