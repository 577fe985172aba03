"""What a page says, without colours."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def words(*parts: RenderableType, width: int = 120) -> str:
    """The parts as plain text of the given width."""
    console = Console(
        file=io.StringIO(), width=width, no_color=True, highlight=False, markup=False, emoji=False
    )
    for part in parts:
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined]
