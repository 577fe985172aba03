"""Model a page as typed rows and words; all writers use this model.

A page is a sequence of sections, and a section is a title with blocks. Writers (`assistant.text`,
`assistant.tui`) choose wrapping, colours and frames; they also remove control characters from every word,
because names may come from a hostile recording.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

Tone = Literal["", "bad", "caution", "good", "odd", "dim", "strong", "code"]
"""Meaning of a word, which writers show by a colour, but never by colour alone."""


class Span(NamedTuple):
    """A piece of a line with one tone."""

    text: str
    tone: Tone = ""


Words = tuple[Span, ...]
"""One line of words, which writers may wrap."""
Cell = str | Words


def words(*parts: str | tuple[str, Tone]) -> Words:
    """Return the parts as one line; empty parts are left out."""
    spans = (Span(part) if isinstance(part, str) else Span(*part) for part in parts)
    return tuple(span for span in spans if span.text)


def spans(cell: Cell) -> Words:
    """Return a cell as words."""
    return words(cell) if isinstance(cell, str) else cell


def plain(cell: Cell) -> str:
    """Return the text of a cell without its tones."""
    return cell if isinstance(cell, str) else "".join(span.text for span in cell)


def joined_by(separator: str, lines: Iterable[Cell]) -> Words:
    """Join the lines that are not empty into one line, with `separator` between them."""
    result: Words = ()
    for line in filter(None, map(spans, lines)):
        result += (words(separator) if result else ()) + line
    return result


class Row(NamedTuple):
    """A line or paragraph, with an optional label in front."""

    text: Cell = ""
    label: Cell = ""
    literal: bool = False
    """True for text that people copy or search for, such as a command; such text is never broken."""


class Column(NamedTuple):
    """A column of a table."""

    heading: str = ""
    right: bool = False
    fixed: bool = False
    """True for a column that is never narrowed: its cells stay on one line."""
    least: int = 0
    most: int = 0
    """Largest width; 0 for any width."""


class Table(NamedTuple):
    """Rows of cells. An empty row is a gap; the missing cells of a short row are empty."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    gap: int = 2
    tone: Tone = "dim"
    """Tone of the headings."""


class Share(NamedTuple):
    """A term of a sum."""

    name: str
    value: Cell
    fraction: float | None = None
    """The term's part of the whole sum; None if unknown."""
    is_part: bool = False
    """True for a part of the term before it."""


class Shares(NamedTuple):
    """A sum that is shown term by term."""

    terms: tuple[Share, ...]


class Curve(NamedTuple):
    """Points of a curve, from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


class Figure(NamedTuple):
    """Curves over one axis."""

    title: str
    curves: tuple[Curve, ...]
    x_words: Callable[[float], str]
    y_words: Callable[[float], str]
    is_log: bool = False
    """True if the horizontal axis is logarithmic, for example for sizes."""
    floor: float = 0.0
    """Value at which the vertical axis begins."""


class Source(NamedTuple):
    """The exact text of a file."""

    text: str
    language: str = ""


Block = Row | Table | Shares | Figure | Source


class Section(NamedTuple):
    """A titled piece of a page."""

    title: Cell = ""
    blocks: tuple[Block, ...] = ()
    indent: int = 0
    """Column at which the text after the labels begins, for writers that align columns."""

    @property
    def is_empty(self) -> bool:
        return not self.title and not self.blocks


Page = Sequence[Section]


def section(title: Cell, blocks: Iterable[Block | Cell], indent: int = 0) -> Section:
    """Return a section; each block that is only words becomes a row."""
    return Section(title, tuple(map(_as_block, blocks)), indent)


def _as_block(block: Block | Cell) -> Block:
    # Blocks are tuples too, but of named classes. Only a plain tuple is a cell.
    is_cell = isinstance(block, str) or type(block) is tuple
    return Row(block) if is_cell else block  # type: ignore[return-value,arg-type]
