"""Search for the largest number that works: double until a number fails, then halve the gap.

The module uses only the standard library.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

MOST = 1 << 16
"""Number at which doubling ends; if even this number works, there is no limit."""


class Bounds(NamedTuple):
    """The result of the search."""

    works: int
    """Largest number that worked; 0 for none."""
    fails: int | None
    """Smallest number that failed, which is `works` + 1 after a complete search; None if no number failed."""


def search(attempt: Callable[[int], "bool | None"], most: int = MOST) -> Bounds:
    """Call `attempt` with 1, 2, 4 ... and numbers between them, until it returns None or the limit is known.

    The result is correct if all numbers up to a limit work and all numbers above the limit fail.
    """
    works, fails = 0, None
    size = 1
    while (size <= most) if fails is None else (fails - works > 1):
        answer = attempt(size)
        if answer is None:
            break
        if answer:
            works = size
        else:
            fails = size
        size = 2 * size if fails is None else (works + fails) // 2
    return Bounds(works, fails)
