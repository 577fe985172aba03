"""Show two lines on top: the screens with their digits, and the source of the facts."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from assistant.pages.machine.header import machine_line, progress, running_line
from assistant.tui.actions import SCREENS
from assistant.tui.panel_writer import line
from assistant.tui.session import State


class TitleBar(Vertical):
    """Screens on the first line; host, source and interpreter, or the running stage, on the second."""

    def __init__(self, screen_id: str) -> None:
        super().__init__()
        self._screen_id = screen_id

    def compose(self) -> ComposeResult:
        names = []
        for row in SCREENS:
            label = f" [b]{row.key}[/b] {row.title} "
            label = f"[reverse]{label}[/reverse]" if row.id == self._screen_id else label
            names.append(f"[@click=app.go('{row.id}')]{label}[/]")
        yield Static(" ".join(names), id="screens")
        yield Static(id="machine")

    def show(self, state: State) -> None:
        shown = machine_line(state.facts, state.source_title)
        if state.running:
            now = state.running[-1]
            shown = running_line(state.facts, progress(now.title, now.message, now.done, now.total))
        self.query_one("#machine", Static).update(line(shown))
