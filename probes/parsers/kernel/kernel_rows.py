"""The form of the grammar of the kernel log: one row for each kind of line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import KernelEvent

PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}"
"""An address without function, as the kernel prints it."""
_LEADING_PCI = pattern(rf"(?:\S{{1,40}} )?({PCI})\.[0-7]")

Maker = Callable[[re.Match[str]], "KernelEvent | None"]


class KernelRow(NamedTuple):
    """One kind of line."""

    event: type[KernelEvent]
    words: tuple[str, ...]
    """Every such line has one of them. A log is searched for these words, and only lines that hold one are
    read.
    """
    shape: re.Pattern[str]
    """Found anywhere in the message. Its named groups are fields of the event."""
    make: Maker | None
    """Makes the event where groups alone do not; None for a line that is none after all."""
    fields: dict[str, Any]
    """Fields that every event of the row has."""

    def read(self, message: str) -> KernelEvent | None:
        """Return what a message, freed of time and host, says by this row."""
        match = self.shape.search(message)
        if match is None:
            return None
        if self.make is None:
            named: dict[str, Any] = {**self.fields, **match.groupdict()}
            return self.event(message=message, **named)
        return self.make(match)


def row(
    event: type[KernelEvent],
    words: str | tuple[str, ...],
    shape: str,
    *,
    flags: int = 0,
    make: Maker | None = None,
    **fields: Any,
) -> KernelRow:
    """Make a row. With `make`, that function alone decides on the fields."""
    words = (words,) if isinstance(words, str) else words
    return KernelRow(event, words, pattern(shape, flags), make, fields)


def leading_device(message: str) -> str | None:
    """Return the PCI address with which a message begins, perhaps behind the driver's name."""
    match = _LEADING_PCI.match(message)
    return match[1] if match else None


def card_of(address: str) -> str:
    """Return an address as the kernel prints it (`17:00.0`, `0000:17:00.0`) with its domain and without its
    function.
    """
    card = address.partition(".")[0]
    return card if card.count(":") > 1 else f"0000:{card}"
