"""rich tables as plain text of a fixed width."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table

from assistant.render.lines import clean_lines

_WIDEST = 140


class _Clean:
    """`part` without control characters in its words: rich takes out a few of them only."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return (
            Segment(clean_lines(segment.text), segment.style)
            for segment in console.render(self._part, options)
        )


def width_of_terminal() -> int:
    """Columns of the terminal, as far as reports use them; 100 where there is none."""
    return min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)


def text_of(parts: Iterable[RenderableType], *, colour: bool, width: int | None = None) -> str:
    """Render `parts` one below the other; without colour no escape code is left. Lines are never broken:
    paths are copied.
    """
    columns = width_of_terminal() if width is None else width
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=columns,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in parts:
        console.print(_Clean(part), soft_wrap=not isinstance(part, Table))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def plain_table(*columns: str) -> Table:
    """A table without frames, for a terminal that is read and for output that is piped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
