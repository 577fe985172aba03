"""Plain lines for a terminal: wrapped, free of control characters, coloured on request. No rich: start-up
time counts.
"""

from __future__ import annotations

import textwrap

from probes.judging.findings import Status

WIDTH = 80

_SGR = {Status.FAIL: "31", Status.UNKNOWN: "35", Status.WARN: "33", Status.PASS: "32", Status.SKIP: "2"}
_GLYPHS = {Status.FAIL: "✗", Status.UNKNOWN: "?", Status.WARN: "!", Status.PASS: "✓", Status.SKIP: "-"}


def clean(text: str) -> str:
    """`text` without characters that move the cursor or colour the terminal; names may come from a hostile
    recording.
    """
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def clean_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(clean, text.split("\n")))


def filled(text: str, *, label: str = "", indent: int = 0, width: int = WIDTH) -> list[str]:
    """`label` and `text` in lines of `width`; what follows hangs at `indent`."""
    start = clean(label).ljust(indent)
    gap = " " * indent
    return textwrap.wrap(
        clean(text),
        width,
        initial_indent=start,
        subsequent_indent=gap,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [start.rstrip()]


def badge(status: Status) -> str:
    """Glyph and word: `✗ FAIL   `, of one width for all."""
    return f"{_GLYPHS[status]} {status.value:<8}"


def paint(text: str, status: Status, *, colour: bool) -> str:
    """`text` in the colour of `status`; the word says the same, so nothing is lost without."""
    return f"\x1b[{_SGR[status]}m{text}\x1b[0m" if colour else text


def bold(text: str, *, colour: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if colour else text
