"""Draw a list of many nodes: only visible lines are made, so that a list of 10 000 nodes stays fast.

Textual's own table and option list measure every row after each change of the filter, which takes about a
second for 10 000 rows (`tests/benchmarks/nodes_in_the_tui.py`).
"""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from assistant.pages.blocks import Cell, plain
from assistant.pages.fleet_nodes_page import NodeRow
from assistant.tui.panel_writer import line

_HEADINGS = ("verdict", "node", "reason", "group")
_LONGEST = (14, 28, 0, 33)
"""Most cells of each column; the reason has the rest of the line."""
_MEASURED_ROWS = 1000
"""Number of the first rows whose cells set the widths of the columns."""
_WIDE = 110
"""Smallest number of cells with which the list shows the group of each node."""


class NodeList(ScrollView, can_focus=True):
    """A list of nodes with a cursor; `enter` is left to the screen, so that the footer can show it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"node-list--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Down", show=False),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("home", "go_to(0)", "First", show=False),
        Binding("end", "go_to(-1)", "Last", show=False),
    ]
    cursor = reactive(0)
    """Position of the chosen node in `rows`."""

    class Drawn(Message):
        """Message that the cursor, the rows or the width changed."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.rows: tuple[NodeRow, ...] = ()
        self._longest = (0,) * len(_HEADINGS)
        """Cells of the longest text in each column, at most `_LONGEST`."""

    @property
    def current(self) -> NodeRow | None:
        """The chosen node; None if the list is empty."""
        return self.rows[self.cursor] if self.rows else None

    def show(self, rows: Sequence[NodeRow]) -> None:
        """Draw other rows; the chosen node stays chosen if it is among them."""
        chosen = self.current.node if self.current is not None else ""
        self.rows = tuple(rows)
        first = [_cells(row) for row in rows[:_MEASURED_ROWS]]
        self._longest = tuple(
            min(most, max((len(plain(cells[number])) for cells in first), default=0))
            for number, most in enumerate(_LONGEST)
        )
        place = next((number for number, row in enumerate(rows) if row.node == chosen), 0)
        self.virtual_size = Size(self.size.width, len(rows))
        self.set_reactive(NodeList.cursor, place)
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Drawn())

    def validate_cursor(self, place: int) -> int:
        return max(0, min(place, len(self.rows) - 1))

    def watch_cursor(self) -> None:
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Drawn())

    def _scroll_to_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, self.size.width, 1), animate=False, force=True)

    def action_move(self, step: int) -> None:
        self.cursor += step

    def action_move_page(self, step: int) -> None:
        self.cursor += step * max(1, self.size.height - 1)

    def action_go_to(self, place: int) -> None:
        self.cursor = place if place >= 0 else len(self.rows) - 1

    def on_click(self, event: events.Click) -> None:
        self.cursor = event.y + round(self.scroll_offset.y)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.rows))
        self.post_message(self.Drawn())

    def render_line(self, y: int) -> Strip:
        """Return one visible line; Textual calls this method by its name."""
        place, width = y + round(self.scroll_offset.y), self.size.width
        if place >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        row = self.rows[place]
        text = self._in_columns(_cells(row))
        name = "node-list--cursor" if place == self.cursor else ""
        style = self.get_component_rich_style(name) if name else self.rich_style
        return Strip(text.render(self.app.console), width).apply_style(style)

    def headings(self) -> Text:
        """Return the line above the list."""
        text = self._in_columns(_HEADINGS)
        text.stylize("dim")
        return text

    def _in_columns(self, cells: Sequence[Cell]) -> Text:
        """Return the cells as one line of exactly the width of the list; long cells are cut."""
        text = Text()
        for cell, width in zip(cells, self._widths(), strict=True):
            part = line(cell)
            part.truncate(max(0, width - 1), overflow="ellipsis", pad=True)
            text.append_text(part)
            text.append(" " * min(1, width))
        text.truncate(self.size.width, overflow="crop", pad=True)
        return text

    def _widths(self) -> tuple[int, ...]:
        """Return the cells of each column with the gap after it; 0 for the group if it is not shown."""
        verdict, node, _, group = (
            max(longest, len(heading)) + 2 if longest else 0
            for longest, heading in zip(self._longest, _HEADINGS, strict=True)
        )
        group *= self.size.width >= _WIDE
        return verdict, node, max(0, self.size.width - verdict - node - group), group


def _cells(row: NodeRow) -> tuple[Cell, ...]:
    return row.verdict, row.node, row.reason, row.group
