"""A deadline for calls that may block in the kernel: a file of a hung network mount or of a wedged driver."""

from __future__ import annotations

import _thread
import queue
from collections.abc import Callable
from typing import Any, TypeVar

from probes.base.errors import ResourceError
from probes.base.record import Reason, Unknown

T = TypeVar("T")


def start_thread(function: Callable[[], None]) -> None:
    """Run `function` on a thread that does not delay the end of the program. Raises ResourceError.

    `threading.Thread.start` waits for the thread's first step, and for ever if the thread finds no memory to
    take it.
    """
    try:
        _thread.start_new_thread(function, ())
    except RuntimeError as error:
        raise ResourceError("no further thread") from error


class _Helper:
    """A daemon thread that makes one call after another."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.outcomes: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        start_thread(self._work)

    def _work(self) -> None:
        while (function := self.calls.get()) is not None:
            try:
                self.outcomes.put((function(), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller
                self.outcomes.put((None, error))


_idle: list[_Helper] = []
"""Helpers kept for the next call: starting a thread takes longer than most calls."""


def within(timeout_s: float, function: Callable[[], T]) -> T | Unknown:
    """Return or raise the result of `function`; `Unknown` (timeout) if the call takes longer.

    The call runs on a daemon thread, which is left behind after the deadline: nothing can stop a thread that
    waits inside the kernel, but other calls are not delayed.
    """
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    helper.calls.put(function)
    try:
        value, error = helper.outcomes.get(timeout=timeout_s)
    except queue.Empty:
        helper.calls.put(None)  # the helper ends if the kernel ever returns
        return Unknown(Reason.TIMEOUT, f"no answer within {timeout_s:g} s")
    _idle.append(helper)
    if error is not None:
        raise error
    result: T = value
    return result
