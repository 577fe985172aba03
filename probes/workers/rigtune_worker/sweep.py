"""Search the largest number that works: doubling until one fails, then halving the gap.

Uses only the standard library.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

MOST = 1 << 16
"""Limit of doubling: a case this cheap shows no limit."""


class Bounds(NamedTuple):
    """The result of the search."""

    works: int
    """Largest number that worked; 0 for none."""
    fails: int | None
    """Smallest number that failed; None if none did.

    It is one more than `works` if the search was completed.
    """


def search(attempt: Callable[[int], "bool | None"], most: int = MOST) -> Bounds:
    """Call `attempt` with 1, 2, 4 ... and numbers between; it returns None to end the search.

    The result is correct if all numbers up to a limit work and all above fail.
    """
    works, fails = 0, None
    size = 1
    while size <= most and fails is None:
        answer = attempt(size)
        if answer is None:
            return Bounds(works, None)
        if answer:
            works, size = size, 2 * size
        else:
            fails = size
    while fails is not None and fails - works > 1:
        middle = (works + fails) // 2
        answer = attempt(middle)
        if answer is None:
            break
        if answer:
            works = middle
        else:
            fails = middle
    return Bounds(works, fails)
