"""Text whose characters keep their place in the file after quotes and indentation are removed."""

import bisect
import re
from collections.abc import Sequence

import msgspec

from recipes.lint.document import Place


class Lines:
    """Line and column of each offset in a file."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)
        self._length = len(text)

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column, counted from 1."""
        offset = min(max(offset, 0), self._length)
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and a column, counted from 0.

        A line after the end of the file has the offset of the end.
        """
        if line >= len(self._starts):
            return self._length
        line = max(line, 0)
        return min(self._starts[line] + column, self._length)

    def place(self, start: int, end: int) -> Place:
        """Return the place of the characters from `start` to before `end`."""
        line, column = self.position(start)
        end_line, end_column = self.position(max(end, start))
        return Place(line=line, column=column, end_line=end_line, end_column=end_column)


class Span(msgspec.Struct, eq=False):
    """A piece of a file, or the content of a quoted word in the file."""

    text: str
    offsets: Sequence[int]
    """Offset in the file of each character of `text`."""
    lines: Lines

    @classmethod
    def whole(cls, text: str) -> "Span":
        return cls(text, range(len(text)), Lines(text))

    def part(self, start: int, end: int) -> "Span":
        return Span(self.text[start:end], self.offsets[start:end], self.lines)

    def place(self, start: int = 0, end: int | None = None) -> Place:
        """Return the place in the file of the characters from `start` to before `end`."""
        stop = len(self.offsets) if end is None else min(end, len(self.offsets))
        if start >= stop:
            at = self._begin(start)
            return self.lines.place(at, at)
        return self.lines.place(self.offsets[start], self.offsets[stop - 1] + 1)

    def _begin(self, index: int) -> int:
        if index < len(self.offsets):
            return self.offsets[index]
        return self.offsets[-1] + 1 if len(self.offsets) else 0


def fixed(text: str, span: Span) -> Span:
    """Return a span for a text that the file spells with other characters.

    All characters get the place of the first character of `span`.
    """
    at = span.offsets[0] if len(span.offsets) else 0
    return Span(text, [at] * len(text), span.lines)


_ESCAPED = re.compile(r"\\(?=[$`\\])")


def unescaped(span: Span) -> Span:
    """Return the text of a here-document without the backslashes that its shell removes."""
    keep = [True] * len(span.text)
    for match in _ESCAPED.finditer(span.text):
        keep[match.start()] = False
    return Span(
        "".join(character for character, kept in zip(span.text, keep, strict=True) if kept),
        [offset for offset, kept in zip(span.offsets, keep, strict=True) if kept],
        span.lines,
    )
