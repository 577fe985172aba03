"""The parts of a file that a recipe states, and the rest, which the recipe keeps.

In kept parts, continued lines are joined and runs of blanks become one blank. Comments, and parts that
contain only references to variables, are not kept.
"""

import re
from collections.abc import Iterator

from recipes.lint.document import Place
from recipes.lint.readers.span import Lines, Span
from recipes.lint.readers.words import tokens_of

_CONTINUED = re.compile(r"\\\r?\n")
_EMPTY = re.compile(
    r"^\s*-?\s*[\w./-]+:\s*$|^\s*-\s*$|[\s\"'\\;&()]+"
    r"|\b(?:export|declare|local|readonly|typeset|set -a|exec)\b(?:\s+-\w+)*|[A-Za-z_]\w*\+?=(?=\W|$)"
)
"""Text without content: blanks, quotes, and the beginning of an assignment or key whose value is covered."""

_REQUEST = re.compile(r"#(?:SBATCH|PBS|BSUB)\b")


class Coverage:
    """The characters of one file that belong to a setting of the recipe."""

    def __init__(self, text: str, known_variables: frozenset[str]) -> None:
        self.text = text
        self._lines = Lines(text)
        self._is_covered = bytearray(len(text))
        self._variables = re.compile(
            r"\"?\$\{?(?:" + "|".join(map(re.escape, sorted(known_variables))) + r")(?:\[@\])?\}?\"?(?!\w)"
            if known_variables
            else r"(?!)"
        )
        for begin, end in _comments(text):
            self._mark(begin, end)

    def cover(self, place: Place) -> None:
        """Mark the characters of a place."""
        begin = self._lines.offset(place.line - 1, place.column - 1)
        end_line = place.end_line or place.line
        end = self._lines.offset(end_line - 1, place.end_column - 1) if place.end_column else begin
        self._mark(begin, max(begin, end))

    def cover_line(self, line: int) -> None:
        """Mark a whole line, counted from 1."""
        self._mark(self._lines.offset(line - 1, 0), self._lines.offset(line, 0))

    def is_touched(self, place: Place) -> bool:
        """Return whether a part of a place is covered."""
        begin = self._lines.offset(place.line - 1, place.column - 1)
        end = self._lines.offset((place.end_line or place.line) - 1, (place.end_column or place.column) - 1)
        return any(self._is_covered[begin:end])

    def _mark(self, begin: int, end: int) -> None:
        self._is_covered[begin:end] = b"\1" * (min(end, len(self.text)) - begin)

    def rest(self, first: int = 1, last: int | None = None) -> Iterator[tuple[int, str]]:
        """Yield the line and the text of each part from `first` to `last` that is not covered.

        A line that continues on the next line is one part if none of its characters is covered; otherwise
        each piece that is not covered is a part. A reference to a variable that the file sets is not a part
        of its own.
        """
        end = len(self.text) if last is None else self._lines.offset(last, 0)
        at = self._lines.offset(first - 1, 0)
        while at < end:
            stop = self._logical_end(at)
            yield from self._rest_of(at, min(stop, end))
            at = stop

    def _logical_end(self, at: int) -> int:
        """Return the offset after the line break that ends a line with all its continuations."""
        while True:
            end = self.text.find("\n", at)
            if end < 0:
                return len(self.text)
            if not self.text[at:end].rstrip("\r").endswith("\\"):
                return end + 1
            at = end + 1

    def _rest_of(self, begin: int, end: int) -> Iterator[tuple[int, str]]:
        pieces: list[tuple[int, str]] = []
        at = begin
        while at < end:
            stop = at
            while stop < end and self._is_covered[stop] == self._is_covered[at]:
                stop += 1
            if not self._is_covered[at]:
                pieces.append((at, self.text[at:stop]))
            at = stop
        for offset, piece in pieces:
            # the tokenizer does not see comments between the words of an array
            is_comment = piece.lstrip().startswith("#") and "\n" not in piece.strip()
            if is_comment and not _REQUEST.match(piece.lstrip()):
                continue
            if _EMPTY.sub("", self._variables.sub("", piece)):
                lead = len(piece) - len(piece.lstrip())
                yield self._lines.position(offset + lead)[0], " ".join(_CONTINUED.sub(" ", piece).split())


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each comment of a script; requests to a scheduler are no comments."""
    for token in tokens_of(Span.whole(text)):
        if token.kind == "comment" and not _REQUEST.match(token.text):
            yield token.at, token.at + len(token.text)
