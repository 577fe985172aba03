"""Ask before leaving while a benchmark or an export runs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from assistant.tui.dialogs.dialog import Dialog


class QuitDialog(Dialog[bool]):
    """A question whose answer is True to stop the running stage and leave."""

    TITLE_WORDS = "Something is running"
    HINT = "enter or q stops it and leaves   esc stays"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q,y", "leave", "Stop and leave", show=False)]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose_content(self) -> ComposeResult:
        yield Static(f"{self._what} is under way. Stop it and leave?", markup=False)

    def action_leave(self) -> None:
        is_sure = True
        self.dismiss(is_sure)
