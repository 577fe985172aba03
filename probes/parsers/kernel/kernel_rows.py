"""Form of the rows of the kernel log's grammar: one row for each kind of line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import KernelEvent

PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}"
"""PCI address without function, as the kernel prints it."""
_LEADING_PCI = pattern(rf"(?:\S{{1,40}} )?({PCI})\.[0-7]")

Maker = Callable[[re.Match[str]], "KernelEvent | None"]


class KernelRow(NamedTuple):
    """One kind of line."""

    event: type[KernelEvent]
    words: tuple[str, ...]
    """Words of which every such line contains one.

    A log is searched for these words, and only lines with one of them are read.
    """
    shape: re.Pattern[str]
    """Pattern that may match anywhere in the message; its named groups are fields of the event."""
    make: Maker | None
    """Function that builds the event if groups alone do not suffice; it returns None for other lines."""
    fields: dict[str, Any]
    """Fields that every event of the row has."""

    def read(self, message: str) -> KernelEvent | None:
        """Return the event of a message without time and host; None if the row does not fit it."""
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
    """Return a row; with `make`, only that function determines the fields."""
    words = (words,) if isinstance(words, str) else words
    return KernelRow(event, words, pattern(shape, flags), make, fields)


def leading_device(message: str) -> str | None:
    """Return the PCI address at the beginning of a message, possibly behind the driver's name."""
    match = _LEADING_PCI.match(message)
    return match[1] if match else None


def card_of(address: str) -> str:
    """Return an address (`17:00.0`, `0000:17:00.0`) with its domain and without its function."""
    card = address.partition(".")[0]
    return card if card.count(":") > 1 else f"0000:{card}"
