"""Define the base of all dialogs: a titled box in the middle that `esc` closes."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """A modal box. Subclasses compose its content and dismiss it with their answer.

    The key `esc` dismisses it with None.
    """

    TITLE_WORDS: ClassVar[str] = ""
    HINT: ClassVar[str] = "esc closes"
    IS_TEXT: ClassVar[bool] = False
    """True for a box without fields: the arrow keys scroll it."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=self.IS_TEXT) as box:
            box.border_title = Text(self.TITLE_WORDS)
            box.border_subtitle = Text(self.HINT)
            yield from self.compose_content()

    def compose_content(self) -> ComposeResult:
        yield Static()

    def action_close(self) -> None:
        self.dismiss(None)
