"""Group values by a key, or keep the largest value of each key."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")
Number = TypeVar("Number", int, float)


def grouped(pairs: Iterable[tuple[Key, T]]) -> dict[Key, list[T]]:
    """Return the values of pairs (key, value) by key, in the order in which the keys first appear."""
    groups: dict[Key, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def largest(pairs: Iterable[tuple[Key, Number]]) -> dict[Key, Number]:
    """Return the largest value of pairs (key, value) by key."""
    return {key: max(values) for key, values in grouped(pairs).items()}
