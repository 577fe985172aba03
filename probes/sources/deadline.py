"""A deadline for calls that may block in the kernel: a file of a hung network mount or of a wedged driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from probes.record import Reason, Unknown

T = TypeVar("T")


def within(timeout_s: float, function: Callable[[], T]) -> T | Unknown:
    """What `function` returns or raises, or `Unknown` (timeout) when it takes longer.

    It runs on a daemon thread of its own, which is left behind after the deadline: nothing stops a thread that waits
    inside the kernel, but it does not hold up anybody else.
    """
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            errors.append(error)

    thread = threading.Thread(target=work, name="rigtune-deadline", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    return values[0] if values else Unknown(Reason.TIMEOUT, f"no answer within {timeout_s:g} s")
