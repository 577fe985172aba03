"""A deadline for calls that may block in the kernel: a file of a hung network mount or of a wedged driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from probes.record import Reason, Unknown

T = TypeVar("T")


def within(timeout_s: float, function: Callable[[], T]) -> T | Unknown:
    """What `function` returns or raises, or `Unknown` (timeout) when it takes longer.

    It runs on a daemon thread of its own, which is left behind after the deadline: nothing stops a thread that waits
    inside the kernel, but it does not hold up anybody else.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            outcome.set_exception(error)

    threading.Thread(target=work, name="rigtune-deadline", daemon=True).start()
    try:
        return outcome.result(timeout_s)
    except FutureTimeoutError:
        if outcome.done():  # `function` itself raised it: ETIMEDOUT of a network mount, since Python 3.11
            return outcome.result()
        return Unknown(Reason.TIMEOUT, f"no answer within {timeout_s:g} s")
