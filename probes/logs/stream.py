"""Split the bytes of a log into lines and select those that readers want, for any bytes, in bounded memory.

Lines that differ only in digits and hexadecimal addresses have the same *shape*. The sieve decides after at
most 64 lines of a shape whether it selects the shape. It can therefore miss a line if more than 64 earlier
lines of the same shape have the sign only without its digits.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_NUMBERS = b"0123456789"
"""Digits, which are ignored when lines are compared."""
_ADDRESS = re.compile(rb"\b(?:[0-9]{1,64}[A-Fa-f]|[A-Fa-f]{1,64}[0-9]|0[xX])[0-9A-Fa-f]{0,64}\b")
"""An address or id of digits and letters, which is ignored too; words such as `failed` have no digit."""
_ENVELOPE_END = b" NCCL "
"""End of the prefix with host, process and GPU, which is ignored when lines are compared."""
MOST_ALIKE = 20_000
"""Maximum number of lines of one shape that are read.

This is enough for one line from each rank in the largest jobs. It limits lines about channels, of which each
rank writes hundreds.
"""
_MOST_SHAPES = 40_000
_LONGEST_SHAPE = 512
_GRAM = 4
"""Length in bytes of the pieces of a line that are searched for signs."""
_SMALL_LETTERS = frozenset(range(ord("a"), ord("z") + 1))
_TRIES = 64
"""Number of lines of a shape that are searched for a sign, if the first line has a sign without its digits.

If none of these lines has the whole sign, the shape is skipped.
"""
LONGEST_LINE = 8192
"""Maximum length of a line in bytes; a longer line is split into pieces that have the same line number."""
MOST_LINES_AFTER = 20_000
"""Maximum number of lines of one log that are read only because an earlier line requests them.

A line counts once for each reader that requests it.
"""
_LONGEST_WAIT = 1 << 20
"""Maximum number of bytes of an unfinished line that are kept until the line ends."""
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cDEMHNOZ])"
)
_HEAD_BYTES = 64
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Sign(NamedTuple):
    """A byte string that marks the lines that a reader may need."""

    exact: bytes
    loose: bytes
    """The sign without digits."""
    reader: int


class _Shape:
    """Lines that differ only in digits and addresses."""

    __slots__ = ("left", "readers", "signs")

    def __init__(self, left: int, signs: tuple[_Sign, ...]) -> None:
        self.left = left
        """Number of further lines of this shape that may pass.

        If negative: how many more lines are searched for a sign.
        """
        self.signs = signs
        self.readers = tuple(sorted({sign.reader for sign in signs}))


_NOTHING = _Shape(0, ())


class Sieve:
    """Selects the readers that need a line.

    A line of a known shape takes half a microsecond; a line with a new address and any other line take a few
    microseconds.
    """

    def __init__(self, signs: Sequence[Iterable[bytes]]) -> None:
        """Store the signs of each reader."""
        everything = {
            _Sign(sign, sign.translate(None, _NUMBERS), place)
            for place, group in enumerate(signs)
            for sign in group
        }
        self._short = tuple(sign for sign in everything if len(sign.loose) < 2 * _GRAM - 1)
        """Signs that are searched in the whole line.

        The pieces of a line begin at every fourth byte, so a sign of less than seven bytes may contain none.
        """
        self._any_short = re.compile(b"|".join(re.escape(sign.loose) for sign in self._short) or b"(?!)")
        self._by_gram: dict[int, list[_Sign]] = {}
        for sign in everything.difference(self._short):
            for gram in _pieces_of(sign.loose):
                self._by_gram.setdefault(gram, []).append(sign)
        self._grams = frozenset(self._by_gram)
        self._shapes: dict[bytes, _Shape] = {}

    def readers(self, line: bytes) -> tuple[int, ...]:
        """Return the indices of the readers that may need `line`; empty for most lines."""
        start = line.find(_ENVELOPE_END)
        part = line if start < 0 else line[start:]
        # a line without letters in its addresses has the same key with and without the search for addresses
        shape = self._shapes.get(part.translate(None, _NUMBERS))
        if shape is None:
            key = _ADDRESS.sub(b"", part).translate(None, _NUMBERS)
            shape = self._shapes.get(key) or self._first(line, key)
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
        """Return a new shape, with the readers that its first line selects."""
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


def _pieces_of(loose: bytes) -> list[int]:
    """Return rare pieces of a sign; every line with the sign contains at least one of them.

    Pieces with fewer small letters occur in fewer other lines.
    """
    pieces = [loose[start : start + _GRAM] for start in range(len(loose) - _GRAM + 1)]
    runs = [pieces[start : start + _GRAM] for start in range(len(pieces) - _GRAM + 1)]
    rarest = min(runs, key=lambda run: sum(byte in _SMALL_LETTERS for piece in run for byte in piece))
    return [int.from_bytes(piece, sys.byteorder) for piece in rarest]


class RawLine(NamedTuple):
    """A line of the file without terminal escapes."""

    number: int
    """Number of the line from 1."""
    text: bytes
    readers: tuple[int, ...]
    """Indices of the readers that may need the line."""


class LogStream:
    """Splits bytes into lines; passes on lines with a sign of a reader, and the lines needed after them."""

    def __init__(self, signs: Sequence[Iterable[bytes]], lines_after: Sequence[int] = ()) -> None:
        """Store the signs of each reader, and the number of following lines that the reader also needs."""
        self._sieve = Sieve(signs)
        self._lines_after = {place: lines for place, lines in enumerate(lines_after) if lines}
        self._followers: dict[int, int] = {}
        """Number of following lines that each reader still needs."""
        self._budget = MOST_LINES_AFTER
        self._rest = b""
        self._number = 1
        self._decoder: codecs.IncrementalDecoder | None = None
        self._head: bytes | None = b""
        """The first bytes, until the encoding is known."""
        self._is_middle = False
        """True if a part of the current line was already passed on."""

    @property
    def lines_read(self) -> int:
        """Return the number of complete lines, plus the current line if it is not empty."""
        return self._number - 1 + bool(self._rest or self._is_middle or self._head)

    def feed(self, chunk: bytes) -> Iterator[RawLine]:
        """Yield the wanted lines that end in `chunk`."""
        data = self._rest + self._decoded(chunk)
        end = data.rfind(b"\n") + 1
        if not end and len(data) < _LONGEST_WAIT:
            self._rest = data
            return
        if not end:
            self._rest = b""
            yield from self._unfinished(data)
            return
        self._rest = data[end:]
        yield from self._lines(data[: end - 1])

    def finish(self) -> Iterator[RawLine]:
        """Yield the wanted lines of the remaining bytes."""
        rest = self._rest + (self._decoded(b"", is_last=True) if self._head is not None else b"")
        *lines, self._rest = rest.split(b"\n")
        if lines:
            yield from self._lines(b"\n".join(lines))
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._unfinished(rest)

    def _decoded(self, chunk: bytes, *, is_last: bool = False) -> bytes:
        """Return bytes in UTF-16, which some shells write, as UTF-8; remove the byte order mark of UTF-8."""
        if self._head is not None:
            self._head += chunk
            needed = _HEAD_BYTES if self._head.startswith(_UTF_16) else len(codecs.BOM_UTF8)
            if len(self._head) < needed and not is_last:
                return b""
            chunk, self._head = self._head, None
            if chunk.startswith(codecs.BOM_UTF8):
                chunk = chunk[len(codecs.BOM_UTF8) :]
            self._decoder = _utf_16(chunk)
        return chunk if self._decoder is None else self._decoder.decode(chunk).encode("utf-8", "replace")

    def _lines(self, block: bytes) -> Iterator[RawLine]:
        """Yield the wanted lines of a block, split at carriage returns as progress bars write them."""
        block = without_escapes(block.replace(b"\r\n", b"\n"))
        lines = block.split(b"\n")
        numbers: Sequence[int] = range(self._number, self._number + len(lines))
        self._number, self._is_middle = self._number + len(lines), False
        if b"\r" in block:
            numbers = [
                number
                for number, line in zip(numbers, lines, strict=True)
                for _ in range(line.count(b"\r") + 1)
            ]
            lines = block.replace(b"\r", b"\n").split(b"\n")
        if max(map(len, lines)) > LONGEST_LINE:
            parts = [
                (number, part) for number, line in zip(numbers, lines, strict=True) for part in _parts(line)
            ]
            numbers, lines = [number for number, _ in parts], [part for _, part in parts]
        readers_of = self._sieve.readers
        for number, line in zip(numbers, lines, strict=True):
            if line and (readers := readers_of(line)):
                yield RawLine(number, line, self._with_followers(readers))
            elif line and self._followers:
                yield RawLine(number, line, self._with_followers(()))

    def _with_followers(self, readers: tuple[int, ...]) -> tuple[int, ...]:
        """Return the readers of the line, and the readers that requested it at an earlier line."""
        if not self._lines_after:
            return readers
        following = self._followers.keys() - set(readers)
        self._budget -= len(following)
        left = {place: lines - 1 for place, lines in self._followers.items() if lines > 1}
        left |= {place: self._lines_after[place] for place in readers if place in self._lines_after}
        self._followers = left if self._budget > 0 else {}
        return tuple(sorted({*readers, *following}))

    def _unfinished(self, line: bytes) -> Iterator[RawLine]:
        """Yield the wanted parts of a line without an end."""
        yield from self._lines(line)
        self._number, self._is_middle = self._number - 1, True


def _parts(line: bytes) -> list[bytes]:
    """Return the parts of a line that is too long."""
    return [line[start : start + LONGEST_LINE] for start in range(0, len(line) or 1, LONGEST_LINE)]


def without_escapes(block: bytes) -> bytes:
    """Return the block without NUL (from damaged files) and without the escape codes of terminals."""
    if b"\0" in block:
        block = block.replace(b"\0", b"")
    return _ESCAPES.sub(b"", block) if b"\x1b" in block else block


def _utf_16(head: bytes) -> codecs.IncrementalDecoder | None:
    """Return a decoder if the bytes begin with a UTF-16 mark and contain NUL bytes, as in Latin text."""
    if not head.startswith(_UTF_16) or head.count(b"\0", 0, _HEAD_BYTES) * 3 < min(len(head), _HEAD_BYTES):
        return None
    return codecs.getincrementaldecoder("utf-16")("replace")
