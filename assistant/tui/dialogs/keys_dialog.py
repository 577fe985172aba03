"""Show the `?` panel: every key of the screen, from the table of actions."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from assistant.pages.blocks import Cell, Column, Section, Table, words
from assistant.tui.actions import ACTIONS, SCREENS, shown_key
from assistant.tui.dialogs.dialog import Dialog
from assistant.tui.panel_writer import body

MOVING = (
    ("arrows", "Move", "Move in a list, or scroll; page up and down, home and end do it in larger steps"),
)


class KeysDialog(Dialog[None]):
    """A list of keys: the screen's own first, then those that apply everywhere."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "Keys"

    def __init__(self, screen_id: str) -> None:
        super().__init__()
        self._screen_id = screen_id

    def compose_content(self) -> ComposeResult:
        here = next(row for row in SCREENS if row.id == self._screen_id)
        own = [(shown_key(row), row.title, row.help) for row in ACTIONS if here.id in row.screens]
        everywhere = [(shown_key(row), row.title, row.help) for row in ACTIONS if not row.screens and row.key]
        screens = [(row.key, row.title, row.purpose) for row in SCREENS]
        rows: list[tuple[Cell, ...]] = []
        for heading, keys in (
            (here.title, own),
            ("Everywhere", [*everywhere, *MOVING]),
            ("Screens", screens),
        ):
            rows += [()] * bool(rows) + [("", words((heading, "strong")))]
            rows += [
                (words((key, "strong")), title, words((help_words, "dim"))) for key, title, help_words in keys
            ]
        yield Static(
            body(Section("", (Table((Column(fixed=True), Column(fixed=True), Column()), tuple(rows)),)))
        )
