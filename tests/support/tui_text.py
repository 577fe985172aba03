"""Text of a page in the terminal UI, without colours."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from assistant.pages.blocks import Block, Section, Words
from assistant.tui.panel_writer import body, line


def words(*parts: Section | Block | Words | RenderableType, width: int = 120) -> str:
    """Return the parts as plain text of the given width, as the terminal UI's writer draws them."""
    console = Console(
        file=io.StringIO(), width=width, no_color=True, highlight=False, markup=False, emoji=False
    )
    for part in parts:
        if isinstance(part, Section):
            console.print(body(part, width))
        elif type(part) is tuple:
            console.print(line(part))
        else:
            console.print(body(Section("", (part,)), width) if isinstance(part, tuple) else part)
    return console.file.getvalue()  # type: ignore[attr-defined]
