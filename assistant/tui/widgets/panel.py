"""Define the framed pieces of a page."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from assistant.pages.blocks import Section
from assistant.tui.panel_writer import body, line


class PanelBox(Static):
    """A section at its full height; an empty section is hidden."""

    def show(self, section: Section, width: int = 100) -> None:
        """Draw `section`, its figures in `width` cells."""
        self.display = not section.is_empty
        self.border_title = line(section.title)
        self.update(body(section, width))


class ScrollBox(VerticalScroll):
    """A section that may be taller than its place; it scrolls when it has the focus."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._content = Static()

    def compose(self) -> ComposeResult:
        yield self._content

    def show(self, section: Section) -> None:
        """Draw `section` below the title of the box."""
        self._content.update(body(section))
