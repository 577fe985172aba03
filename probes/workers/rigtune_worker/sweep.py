"""The largest number that works: doubling until one fails, then halving the gap. Standard library only."""

from __future__ import annotations

from typing import Callable, NamedTuple

MOST = 1 << 16
"""Where doubling ends although everything works: a case this cheap says nothing about a limit."""


class Bounds(NamedTuple):
    """What the search found out."""

    works: int
    """The largest number that worked; 0 for none."""
    fails: int | None
    """The smallest number that failed; None where none did. One more than `works` where the search came to
    its end.
    """


def search(attempt: Callable[[int], "bool | None"], most: int = MOST) -> Bounds:
    """Call `attempt` with 1, 2, 4 ... and between; it says whether the number works, or None to end the
    search.

    Right for what works up to some number and fails above.
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
