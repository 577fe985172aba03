"""What the last lines of tracebacks ask for: rows of `probes/data/exceptions.toml`."""

from __future__ import annotations

import functools
import re

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows
from probes.logs.event import Event
from probes.logs.events.torch_events import TorchException


class ExceptionRow(StrictRecord, kw_only=True):
    """One sort of exception. It fits by its number, or else by its kind, or else by its name or its
    message.
    """

    errno: tuple[int, ...] = ()
    """Of Linux."""
    name: str = ""
    """Expression for the class, with its module where it is said."""
    message: str = ""
    """Expression for what stands behind it."""
    kinds: tuple[str, ...] = ()
    """Of events other than `torch.exception`."""
    system: bool = False
    """Whether the operating system refused something, from which other exceptions follow."""
    what: str
    remedy: str
    command: str | None = None

    def fits(self, event: Event) -> bool:
        """Whether an event is of this sort."""
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
    """The first row that fits an exception."""
    return next((row for row in load_exceptions() if row.fits(event)), None)


@functools.lru_cache(maxsize=1)
def load_exceptions() -> tuple[ExceptionRow, ...]:
    """The rows shipped with rigtune."""
    return msgspec.convert(read_rows("exceptions"), _Rows).exception
