"""Rows of `probes/data/exceptions.toml`: what to do about an exception, by the last line of its traceback."""

from __future__ import annotations

import functools
import re

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows
from probes.logs.event import Event
from probes.logs.events.torch_events import TorchException


class ExceptionRow(StrictRecord, kw_only=True):
    """A sort of exception: recognised by its number, else by its kind, else by its name or message."""

    errno: tuple[int, ...] = ()
    """Error number of Linux."""
    name: str = ""
    """Expression for the class, with its module where the line names it."""
    message: str = ""
    """Expression for the message behind the class."""
    kinds: tuple[str, ...] = ()
    """Kinds of events other than `torch.exception`."""
    system: bool = False
    """Whether the operating system refused something, from which other exceptions follow."""
    what: str
    remedy: str
    command: str | None = None

    def fits(self, event: Event) -> bool:
        """Return whether an event fits the row."""
        exception = event.what
        if not isinstance(exception, TorchException):
            return event.kind in self.kinds
        if exception.errno is not None:
            return exception.errno in self.errno or (not self.errno and self._is_named(exception))
        return self._is_named(exception)

    def _is_named(self, exception: TorchException) -> bool:
        return bool(
            (self.name and re.search(self.name, exception.name, re.IGNORECASE))
            or (self.message and re.search(self.message, exception.message or "", re.IGNORECASE))
        )


class _Rows(StrictRecord, kw_only=True):
    date: str
    exception: tuple[ExceptionRow, ...]


def row_of(event: Event) -> ExceptionRow | None:
    """Return the first row that fits an exception."""
    return next((row for row in load_exceptions() if row.fits(event)), None)


@functools.lru_cache(maxsize=1)
def load_exceptions() -> tuple[ExceptionRow, ...]:
    """Return the rows shipped with rigtune."""
    return msgspec.convert(read_rows("exceptions"), _Rows).exception
