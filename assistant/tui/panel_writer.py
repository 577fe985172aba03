"""Convert the sections of pages into objects that the library rich draws in a panel."""

import itertools

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table as Grid
from rich.text import Text

from assistant.pages.blocks import Block, Cell, Figure, Page, Row, Section, Shares, Source, Table, Tone, spans
from assistant.text.plain_writer import clean, clean_lines
from assistant.text.plot import draw

_STYLES: dict[Tone, str] = {
    "bad": "bold red",
    "caution": "yellow",
    "good": "green",
    "odd": "magenta",
    "strong": "bold",
    "code": "cyan",
}
_BAR_WIDTH = 16
_LABEL_WIDTH = 10
_LONGEST = 2000
"""Largest number of characters of one value; longer values are cut."""


def line(cell: Cell) -> Text:
    """Return a cell as one line of clean text; its words are never interpreted as markup."""
    return Text.assemble(*((clean(text[:_LONGEST]), _STYLES.get(tone, tone)) for text, tone in spans(cell)))


def body(section: Section, width: int = 100) -> RenderableType:
    """Return the blocks of a section; charts are `width` cells wide."""
    parts: list[RenderableType] = []
    for is_rows, group in itertools.groupby(section.blocks, key=lambda block: isinstance(block, Row)):
        blocks = list(group)
        if is_rows:
            parts.append(_rows(blocks))  # type: ignore[arg-type]
        else:
            parts += [_drawn(block, width) for block in blocks]
    return parts[0] if len(parts) == 1 else Group(*parts)


def whole(sections: Page, width: int = 100) -> RenderableType:
    """Return several sections below each other, each under its title."""
    parts: list[RenderableType] = []
    for section in sections:
        if not section.is_empty:
            title = [Text(line(section.title).plain, style="bold")] if section.title else []
            parts += [*[""] * bool(parts), *title, *([body(section, width)] if section.blocks else [])]
    return Group(*parts)


def _rows(rows: list[Row]) -> RenderableType:
    """Return labels on the left and words on the right, or plain lines if no row has a label."""
    if not any(row.label for row in rows):
        return Text("\n").join(line(row.text) for row in rows)
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=_LABEL_WIDTH)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(_label(row.label), line(row.text))
    return grid


def _label(cell: Cell) -> Text:
    """Return a label with its own tones.

    A label that has none but `strong` is dim, and without padding.
    """
    has_tone = any(span.tone not in ("", "strong") for span in spans(cell))
    return line(cell) if has_tone else Text(line(cell).plain.strip(), style="dim")


def _drawn(block: Block, width: int) -> RenderableType:
    match block:
        case Table():
            return _table(block)
        case Shares():
            return _shares(block)
        case Figure():
            return Text("\n").join(map(line, draw(block, width=width)))
        case Source(text=text, language=language):
            shown = clean_lines(text.expandtabs(4))
            return (
                Syntax(shown, language, theme="ansi_dark", background_color="default", word_wrap=True)
                if language
                else Text(shown)
            )
        case Row():
            return line(block.text)


def _table(table: Table) -> Grid:
    grid = Grid(
        box=None, padding=(0, table.gap, 0, 0), pad_edge=False, header_style=table.tone, expand=False,
        show_header=any(column.heading for column in table.columns),
    )  # fmt: skip
    for column in table.columns:
        grid.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=column.fixed,
            min_width=column.least or None,
            max_width=column.most or None,
            overflow="fold",
        )
    for row in table.rows:
        grid.add_row(*map(line, row))
    return grid


def _shares(shares: Shares) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    for term in shares.terms:
        length = max(0, min(_BAR_WIDTH, round((term.fraction or 0.0) * _BAR_WIDTH)))
        bar = Text("█" * length, style="dim" if term.is_part else "cyan")
        grid.add_row(f"{'  ' * term.is_part}{clean(term.name)}", line(term.value), bar)
    return grid
