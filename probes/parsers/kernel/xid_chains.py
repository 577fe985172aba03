"""Report which Xid is the effect of an earlier Xid of the same GPU, by the chains of `probes/data/xid.toml`.

`check` and `explain` use this module while they read a log line by line.
"""

import math
from typing import NamedTuple, Protocol

from probes.base import stamps
from probes.base.patterns import pattern
from probes.catalogue.xids import causing_xids

_UPTIME = pattern(r"\d{1,12}\.\d{1,9}")
_STAMPS = tuple(pattern(shape) for shape in (stamps.ISO, stamps.WEEKDAY, stamps.SYSLOG))
_ANY_YEAR = 2000
"""Year of a time without a year; only differences of times matter here."""
_MOST_GPUS = 1024
"""Largest number of GPUs that are followed in one log; a hostile log may name more."""
_SETTLED = "(None)"


class LoggedXid(Protocol):
    """An Xid, as `check` and `explain` store it."""

    @property
    def xid(self) -> int: ...
    @property
    def caused_by(self) -> int | None: ...
    @property
    def action(self) -> str | None: ...


def is_recovered(xid: LoggedXid) -> bool:
    """Return whether the driver reports that the GPU needs no action any more."""
    return xid.action is not None and xid.action.endswith(_SETTLED)


class _Link(NamedTuple):
    """The last Xid of one number on a GPU."""

    root: int
    """First Xid of its chain; an Xid that follows no other is the first itself."""
    time_s: float | None
    line: int


class XidChains:
    """The Xids of each GPU in one log."""

    def __init__(self) -> None:
        self._links: dict[str, dict[int, _Link]] = {}

    def root_of(self, xid: LoggedXid, gpu: str | None, time_s: float | None, line: int) -> int | None:
        """Return the first Xid of the chain that this Xid continues; None if this Xid continues no chain.

        Without times, only the order of lines decides. `line` grows from Xid to Xid. In a log in which
        somebody replaced the addresses (`gpu` is None), GPUs cannot be distinguished, so the result is None.
        An Xid that reports a recovery ends the chains of its GPU.
        """
        if gpu is None:
            return None
        if is_recovered(xid):
            self._links.pop(gpu, None)
            return None
        links = self._links.get(gpu, {})
        root = self._earliest_root(xid, links, time_s)
        if links or len(self._links) < _MOST_GPUS:
            self._links.setdefault(gpu, {})[xid.xid] = _Link(root, time_s, line)
        return None if root == xid.xid else root

    def end(self) -> None:
        """End all chains, as a boot or a load of the driver does."""
        self._links.clear()

    @staticmethod
    def _earliest_root(xid: LoggedXid, links: dict[int, _Link], time_s: float | None) -> int:
        """Return the root of the earliest Xid that may have caused this Xid, or this Xid's own number."""
        windows = dict(causing_xids().get(xid.xid, {}))
        if xid.caused_by is not None:
            windows[xid.caused_by] = math.inf
        if (last := links.get(xid.xid)) is not None and last.root in windows:
            # An effect that is repeated still belongs to the root.
            windows[xid.xid] = windows[last.root]
        near = [
            links[code]
            for code, window_s in windows.items()
            if code in links and _within(window_s, time_s, links[code].time_s)
        ]
        return min(near, key=lambda link: link.line).root if near else xid.xid


def _within(window_s: float, time_s: float | None, earlier_s: float | None) -> bool:
    return time_s is None or earlier_s is None or abs(time_s - earlier_s) <= window_s


def seconds_of(time: str) -> float | None:
    """Return the time that a log prints, in seconds; None if it is unreadable.

    Only differences of these times have a meaning.
    """
    if _UPTIME.fullmatch(time):
        return float(time)
    matches = (shape.match(time) for shape in _STAMPS)
    return next((stamps.seconds(match, _ANY_YEAR) for match in matches if match), None)
