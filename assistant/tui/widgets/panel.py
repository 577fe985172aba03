"""A framed piece of a page."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from assistant.present.text import Panel


class PanelBox(Static):
    """Shows a `Panel` from `assistant.present` as tall as it is."""

    def show(self, panel: Panel) -> None:
        self.border_title = Text(panel.title)
        self.update(panel.body)


class ScrollBox(VerticalScroll):
    """The same for content that may be taller than its place; it scrolls when it has the focus."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._content = Static()

    def compose(self) -> ComposeResult:
        yield self._content

    def show(self, body: RenderableType, title: str | None = None) -> None:
        if title is not None:
            self.border_title = Text(title)
        self._content.update(body)
