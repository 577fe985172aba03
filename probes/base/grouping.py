"""Group values by a key, keep the largest value of each key, or shorten lists of numbers and names."""

from collections.abc import Hashable, Iterable, Sequence
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
    """Return the largest value of each key in pairs (key, value)."""
    return {key: max(values) for key, values in grouped(pairs).items()}


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run of consecutive numbers, in ascending order."""
    # In a run, the difference between a number and its position is the same.
    positions = enumerate(sorted(set(numbers)))
    runs = grouped((number - position, number) for position, number in positions)
    return [(run[0], run[-1]) for run in runs.values()]


def run_words(run: tuple[int, int]) -> str:
    """Return `0-3` for a run from 0 to 3, and `8` for a single number."""
    first, last = run
    return str(first) if first == last else f"{first}-{last}"


def folded(numbers: Iterable[int]) -> str:
    """Return numbers as the kernel prints lists of CPUs: `0-3,8` for 0, 1, 2, 3 and 8."""
    return ",".join(map(run_words, runs_of(numbers)))


def number_ranges(numbers: Iterable[int], most: int) -> str:
    """Return numbers as at most `most` ranges, then the count of further numbers: `0-7, 12 and 40 more`."""
    runs = runs_of(numbers)
    more = sum(last - first + 1 for first, last in runs[most:])
    return ", ".join(map(run_words, runs[:most])) + (f" and {more} more" if more else "")


def first_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first names of a list, and dots if there are more than `most`: `gpu1, gpu2 ...`."""
    return ", ".join(names[:most]) + (" ..." if len(names) > most else "")
