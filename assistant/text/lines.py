"""Write plain lines for a terminal: wrapped, free of control characters, coloured on request.

The library rich is not used because of its start-up time.
"""

from __future__ import annotations

import textwrap

from assistant.pages.blocks import Cell, Tone, plain, spans, words

WIDTH = 80
_WIDEST = 140
_SGR: dict[Tone, str] = {
    "bad": "31", "odd": "35", "caution": "33", "good": "32", "code": "36", "dim": "2", "strong": "1",
}  # fmt: skip


def width_of_terminal() -> int:
    """Return the columns of the terminal, as far as reports use them; 100 without a terminal."""
    import shutil  # noqa: PLC0415 - a check does without it

    return min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)


def clean(text: str) -> str:
    """Return `text` without characters that move the cursor or colour the terminal."""
    if text.isascii() and text.isprintable():
        return text
    spaced = (" " if character.isspace() else character for character in text)
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in spaced)


def clean_lines(text: str) -> str:
    """Return text of several lines, each of them clean."""
    return "\n".join(map(clean, text.split("\n")))


def painted(cell: Cell, *, colour: bool) -> str:
    """Return a cell as clean text, in colour on request."""
    if not colour:
        return clean(plain(cell))
    return "".join(
        f"\x1b[{_SGR[tone]}m{clean(text)}\x1b[0m" if tone else clean(text) for text, tone in spans(cell)
    )


def filled(
    cell: Cell, *, label: Cell = "", indent: int = 0, width: int = WIDTH, colour: bool = False
) -> list[str]:
    """Return `label` and `cell` in lines of at most `width` columns.

    All lines but the first are indented by `indent`.
    """
    text, start = clean(plain(cell)), clean(plain(label)).ljust(indent)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [start.rstrip()]
    if not colour:
        return lines
    leads = [len(start), *(indent for _ in lines[1:])]
    front = painted(label, colour=True) + start[len(clean(plain(label))) :]
    bodies = coloured(cell, [line[lead:] for line, lead in zip(lines, leads, strict=True)])
    return [front + bodies[0], *(" " * indent + body for body in bodies[1:])]


def coloured(cell: Cell, lines: list[str]) -> list[str]:
    """Return `lines`, into which the clean text of `cell` was broken, in the tones of the cell."""
    text, end, result = clean(plain(cell)), 0, []
    for line in lines:
        begin = text.find(line, end)
        end = begin + len(line)
        position, parts = 0, []
        for span in spans(cell):
            parts.append((span.text[max(0, begin - position) : max(0, end - position)], span.tone))
            position += len(span.text)
        result.append(painted(words(*parts), colour=True))
    return result
