"""Write pages as plain text for a terminal or a file, wrapped and without control characters.

The library rich is not used because of its start-up time.
"""

import itertools
import os
import re
import sys
import textwrap
from collections.abc import Iterator

from assistant.pages.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Page,
    Row,
    Section,
    Shares,
    Source,
    Table,
    Tone,
    joined_by,
    plain,
    spans,
    words,
)
from probes.base.record import REPLACEMENT
from probes.base.units import percent

WIDTH = 80
_WIDEST = 140
_SGR: dict[Tone, str] = {
    "bad": "31", "odd": "35", "caution": "33", "good": "32", "code": "36", "dim": "2", "strong": "1",
}  # fmt: skip
_WIDEST_FIGURE = 100
_STEP = 2
"""Indentation of a row's last cell, which is below the other cells if the page is too narrow for columns."""
_PARTS = re.compile(r"[^/_=,.:-]*[/_=,.:-]+|[^/_=,.:-]+")
"""Parts of a long word, such as a path or an option: each ends with its signs."""
_NARROWEST = 8
"""Smallest width, in characters, to which a column of a table is narrowed."""


def text_of(page: Page, *, colour: bool = False, width: int = WIDTH) -> str:
    """Return the page as text, with a blank line between sections.

    Without `colour` the text contains no escape codes.
    """
    lines: list[str] = []
    for section in page:
        if not section.is_empty:
            lines += [""] * bool(lines) + section_lines(section, colour=colour, width=width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def section_lines(section: Section, *, colour: bool = False, width: int = WIDTH) -> list[str]:
    """Return the lines of a section."""
    title = tuple(span._replace(tone=span.tone or "strong") for span in spans(section.title))
    lines = _row(Row(title), 0, colour=colour, width=width) if title else []
    for block in section.blocks:
        lines += _block(block, section.indent, colour=colour, width=width)
    return lines


def _block(block: Block, indent: int, *, colour: bool, width: int) -> list[str]:
    match block:
        case Row():
            return _row(block, indent, colour=colour, width=width)
        case Table():
            return list(_table(block, indent, colour=colour, width=width))
        case Shares():
            rows = tuple(
                (
                    f"{'  ' * term.is_part}{term.name}",
                    term.value,
                    "" if term.fraction is None else percent(round(term.fraction, 3)),
                )
                for term in block.terms
            )
            table = Table((Column(fixed=True), Column(right=True, fixed=True), Column(fixed=True)), rows)
            return list(_table(table, indent, colour=colour, width=width))
        case Figure():
            from assistant.text.plot import draw  # noqa: PLC0415 - most pages have no curve

            return [painted(line, colour=colour) for line in draw(block, width=min(width, _WIDEST_FIGURE))]
        case Source():
            return clean_lines(block.text).split("\n")


def _row(row: Row, indent: int, *, colour: bool, width: int) -> list[str]:
    """Return a paragraph; its leading spaces also indent the lines that follow."""
    if row.literal:
        return [
            painted(row.label, colour=colour)
            + " " * (indent - len(plain(row.label)))
            + painted(row.text, colour=colour)
        ]
    text = plain(row.text)
    lead = len(text) - len(text.lstrip(" "))
    shown = words(
        *(
            (span.text.lstrip(" ") if number == 0 else span.text, span.tone)
            for number, span in enumerate(spans(row.text))
        )
    )
    return filled(shown, label=row.label, indent=indent + lead, width=width, colour=colour)


def _table(table: Table, indent: int, *, colour: bool, width: int) -> Iterator[str]:
    """Yield the lines of a table; cells that are too long for the width are folded."""
    cells = [tuple(row) + ("",) * (len(table.columns) - len(row)) for row in table.rows]
    widths = _widths(table, cells, width - indent)
    if sum(widths) + table.gap * (len(widths) - 1) > width - indent:
        yield from _stacked(cells, indent, colour=colour, width=width)
        return
    heads = tuple(words((column.heading, table.tone)) for column in table.columns)
    for row in [heads] * any(heads) + cells:
        folded = [_folded(cell, space, colour=colour) for cell, space in zip(row, widths, strict=True)]
        for parts in itertools.zip_longest(*folded, fillvalue=("", "")):
            line = "".join(
                _padded(part, space, column) + " " * table.gap
                for part, space, column in zip(parts, widths, table.columns, strict=True)
            )
            yield (" " * indent + line).rstrip()


def _stacked(rows: list[tuple[Cell, ...]], indent: int, *, colour: bool, width: int) -> Iterator[str]:
    """Yield the rows of a table that is too wide for the page: the last cell is below the other cells."""
    for row in rows:
        *first, last = [cell for cell in row if plain(cell)] or [""]
        if first:
            yield from filled(joined_by("  ", first), indent=indent, width=width, colour=colour)
        yield from filled(last, indent=indent + _STEP * bool(first), width=width, colour=colour)


def _padded(part: tuple[str, str], space: int, column: Column) -> str:
    """Return a piece of a cell with spaces up to the width of its column.

    `part` is a pair: the piece with escape codes, and the piece without escape codes, which has the visible
    length.
    """
    written, counted = part
    gap = " " * (space - len(counted))
    return gap + written if column.right else written + gap


def _folded(cell: Cell, space: int, *, colour: bool) -> list[tuple[str, str]]:
    text = clean(plain(cell))
    if len(text) <= space:
        return [(painted(cell, colour=colour), text)]
    lines = _Folder(max(space, 1), break_on_hyphens=False).wrap(text)
    return list(zip(coloured(cell, lines) if colour else lines, lines, strict=True))


class _Folder(textwrap.TextWrapper):
    """Fold a text between words; a word that is longer than a line is folded after its signs first."""

    def _split(self, text: str) -> list[str]:
        """Return the pieces between which a line may end; textwrap's name."""
        pieces = super()._split(text)
        return [
            part for word in pieces for part in (_PARTS.findall(word) if len(word) > self.width else [word])
        ]


def _widths(table: Table, rows: list[tuple[Cell, ...]], width: int) -> list[int]:
    """Return the width of each column; if the page is too narrow, the widest columns are narrowed first.

    A column becomes narrower than its longest word only if the page is too narrow for all of these words.
    """
    widths, words_least = [], []
    for number, column in enumerate(table.columns):
        texts = [plain(row[number]) for row in rows]
        longest = max(map(len, texts), default=0)
        widths.append(max(min(longest, column.most or longest), column.least, len(column.heading)))
        words_least.append(max((len(word) for text in texts for word in text.split()), default=0))
    for least in (words_least, [0] * len(widths)):
        while sum(widths) + table.gap * (len(widths) - 1) > width:
            free = [
                number
                for number, column in enumerate(table.columns)
                if not column.fixed and widths[number] > max(least[number], _NARROWEST)
            ]
            if not free:
                break
            widths[max(free, key=lambda number: widths[number])] -= 1
    return widths


def width_of_terminal() -> int:
    """Return the number of columns of the terminal, at most the width of reports; 100 without a terminal."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return min(int(named), _WIDEST)
    try:
        columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
        return min(columns or 100, _WIDEST)
    except (AttributeError, ValueError, OSError):
        return 100


def clean(text: str) -> str:
    """Return `text` without characters that move the cursor or colour the terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " if each.isspace() else REPLACEMENT for each in text)


def clean_lines(text: str) -> str:
    """Return a text of several lines after cleaning each line."""
    return "\n".join(map(clean, text.split("\n")))


def painted(cell: Cell, *, colour: bool) -> str:
    """Return a cell as clean text, with colours if requested."""
    if not colour:
        return clean(plain(cell))
    return "".join(
        f"\x1b[{_SGR[tone]}m{clean(text)}\x1b[0m" if tone else clean(text) for text, tone in spans(cell)
    )


def filled(
    cell: Cell, *, label: Cell = "", indent: int = 0, width: int = WIDTH, colour: bool = False
) -> list[str]:
    """Return `label` and `cell` in lines of at most `width` columns; only a longer word makes a line longer.

    All lines but the first are indented by `indent`.
    """
    text, start = clean(plain(cell)), clean(plain(label)).ljust(indent)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [start.rstrip()]
    if not colour:
        return lines
    leads = [len(start), *(indent for _ in lines[1:])]
    front = painted(label, colour=True) + start[len(clean(plain(label))) :]
    bodies = coloured(cell, [line[lead:] for line, lead in zip(lines, leads, strict=True)])
    return [front + bodies[0], *(" " * indent + body for body in bodies[1:])]


def coloured(cell: Cell, lines: list[str]) -> list[str]:
    """Return `lines` (the clean text of `cell`, wrapped), coloured with the tones of the cell."""
    text, end, result = clean(plain(cell)), 0, []
    for line in lines:
        begin = text.find(line, end)
        end = begin + len(line)
        position, parts = 0, []
        for span in spans(cell):
            parts.append((span.text[max(0, begin - position) : max(0, end - position)], span.tone))
            position += len(span.text)
        result.append(painted(words(*parts), colour=True))
    return result
