"""Selection of the lines that a reader may want, decided once for all lines that differ in numbers only."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_NUMBERS = b"0123456789"
_HEXADECIMAL = _NUMBERS + b"abcdefABCDEF"
"""Letters of addresses and ids. Lines that differ in words differ in other letters too."""
_ENVELOPE_END = b" NCCL "
"""End of the prefix with host, process and GPU: hosts must not make lines differ."""
MOST_ALIKE = 20_000
"""Most lines of one shape that are read.

Enough for a line of each rank of the largest jobs, and few enough for the hundreds of lines of each rank
that name its channels.
"""
_MOST_SHAPES = 40_000
_LONGEST_SHAPE = 512
_GRAM = 4
"""Bytes of the pieces of a line that are looked up, each behind the other."""
_SMALL_LETTERS = frozenset(range(ord("a"), ord("z") + 1))
_TRIES = 64
"""Lines of a shape that may hold a sign, before it counts as one that holds none."""


class _Sign(NamedTuple):
    """A sign of a reader."""

    exact: bytes
    loose: bytes
    """The part of a sign that is equal in all lines of one shape."""
    reader: int


class _Shape:
    """Lines that differ in numbers alone."""

    __slots__ = ("left", "readers", "signs")

    def __init__(self, left: int, signs: tuple[_Sign, ...]) -> None:
        self.left = left
        """Number of further lines that may pass; negative: attempts that are left; 0: none."""
        self.signs = signs
        self.readers = tuple(sorted({sign.reader for sign in signs}))


_NOTHING = _Shape(0, ())


class Sieve:
    """Selects the readers that should see a line.

    A line of a known shape takes half a microsecond, another one a few, and memory is small.
    """

    def __init__(self, signs: Sequence[Iterable[bytes]]) -> None:
        """Take the signs of each reader."""
        everything = {
            _Sign(sign, sign.translate(None, _NUMBERS), place)
            for place, group in enumerate(signs)
            for sign in group
        }
        self._short = tuple(sign for sign in everything if len(sign.loose) < 2 * _GRAM - 1)
        """So short that none of the looked-up pieces need lie within."""
        self._any_short = re.compile(b"|".join(re.escape(sign.loose) for sign in self._short) or b"(?!)")
        self._by_gram: dict[int, list[_Sign]] = {}
        for sign in everything.difference(self._short):
            for gram in _grams(sign.loose):
                self._by_gram.setdefault(gram, []).append(sign)
        self._grams = frozenset(self._by_gram)
        self._shapes: dict[bytes, _Shape] = {}

    def readers(self, line: bytes) -> tuple[int, ...]:
        """Return the places of the readers that may want `line`; none for most lines."""
        start = line.find(_ENVELOPE_END)
        key = (line if start < 0 else line[start:]).translate(None, _HEXADECIMAL)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._first(line, key)
        if not shape.left:
            return ()
        if shape.left > 0:
            shape.left -= 1
            return shape.readers
        if any(sign.exact in line for sign in shape.signs):
            shape.left = MOST_ALIKE - 1
            return shape.readers
        shape.left += 1
        return ()

    def _first(self, line: bytes, key: bytes) -> _Shape:
        """Decide for a new shape by its first line."""
        whole = line.translate(None, _NUMBERS)
        pieces = memoryview(whole[: len(whole) // _GRAM * _GRAM]).cast("I")
        shape = _NOTHING
        if self._any_short.search(whole) is not None or not self._grams.isdisjoint(pieces):
            signs = self._signs_in(whole, pieces)
            if signs:
                shape = _Shape(MOST_ALIKE if any(sign.exact in line for sign in signs) else -_TRIES, signs)
        if len(whole) <= _LONGEST_SHAPE:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shape
        return shape

    def _signs_in(self, whole: bytes, pieces: memoryview) -> tuple[_Sign, ...]:
        """Return the signs in a line without numbers; `pieces` are the keys of the look-up."""
        likely = [sign for gram in self._grams.intersection(pieces) for sign in self._by_gram[gram]]
        return tuple(dict.fromkeys(sign for sign in (*self._short, *likely) if sign.loose in whole))


def _grams(loose: bytes) -> list[int]:
    """Return pieces of a sign of which every line with the sign contains one, the rarest first.

    Pieces with fewer small letters occur in fewer other lines.
    """
    pieces = [loose[start : start + _GRAM] for start in range(len(loose) - _GRAM + 1)]
    runs = [pieces[start : start + _GRAM] for start in range(len(pieces) - _GRAM + 1)]
    rarest = min(runs, key=lambda run: sum(byte in _SMALL_LETTERS for piece in run for byte in piece))
    return [int.from_bytes(piece, sys.byteorder) for piece in rarest]
