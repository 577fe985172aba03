"""Define the colours of the terminal UI, and a filter that draws only ASCII, for serial consoles."""

import unicodedata
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.terminal_theme import TerminalTheme
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

THEME = Theme(
    name="rigtune",
    primary="#6cb6c9",
    secondary="#8aa5c4",
    accent="#d7a65f",
    warning="#d7a65f",
    error="#e06c6c",
    success="#7fb77e",
    foreground="#d5dae0",
    background="#12161b",
    surface="#171c22",
    panel="#1f262e",
    dark=True,
    variables={
        "footer-key-foreground": "#d7a65f",
        "footer-background": "#1f262e",
        "footer-description-foreground": "#aab4bf",
        "border": "#3a4652",
        "block-cursor-background": "#2c3a47",
        "block-cursor-foreground": "#eef2f5",
        "block-cursor-blurred-background": "#232c35",
        "input-cursor-background": "#d5dae0",
    },
)

ANSI_COLOURS = TerminalTheme(
    (0x12, 0x16, 0x1B),
    (0xD5, 0xDA, 0xE0),
    [
        (0x17, 0x1C, 0x22),
        (0xE0, 0x6C, 0x6C),
        (0x7F, 0xB7, 0x7E),
        (0xD7, 0xA6, 0x5F),
        (0x6F, 0x9F, 0xD8),
        (0xB5, 0x8F, 0xD8),
        (0x6C, 0xB6, 0xC9),
        (0xC3, 0xCB, 0xD3),
        (0x6B, 0x76, 0x82),
        (0xF0, 0x8A, 0x8A),
        (0x9B, 0xCF, 0x9A),
        (0xE8, 0xC0, 0x83),
        (0x93, 0xBB, 0xEA),
        (0xCB, 0xAE, 0xE8),
        (0x8E, 0xD0, 0xE0),
        (0xEE, 0xF2, 0xF5),
    ],
)
"""The colours for the names that `panel_writer` uses, such as `red` and `green`."""

_ASCII = str.maketrans(
    {
        "✗": "x",
        "✓": "+",
        "·": "-",
        "×": "x",
        "…": ".",
        "─": "-",
        "━": "-",
        "│": "|",
        "┃": "|",
        "╭": "+",
        "╮": "+",
        "╰": "+",
        "╯": "+",
        "┌": "+",
        "┐": "+",
        "└": "+",
        "┘": "+",
        "█": "#",
        "▌": "#",
        "▐": "#",
        "▔": "-",
        "▁": "_",
        **dict.fromkeys("▂▃▄▅▆▇", " "),  # the ends of scroll bars
        "▎": "|",
        "▊": "|",
        "µ": "u",
        "°": " ",
        "—": "-",
        "→": ">",
        **{chr(dots): "*" for dots in range(0x2801, 0x2900)},  # the Braille dots of plots
    }
)


@lru_cache(4096)
def ascii_text(text: str) -> str:
    """Return `text` in ASCII with the same width in cells.

    Known characters and letters with accents are replaced by similar ASCII characters, all others by
    question marks.
    """
    if text.isascii():
        return text
    return "".join(_ascii_character(character) for character in text.translate(_ASCII))


def _ascii_character(character: str) -> str:
    if character.isascii():
        return character
    letter = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()[:1] or "?"
    return letter.ljust(cell_len(character), "?") if cell_len(character) else ""


class AsciiFilter(LineFilter):
    """Apply `ascii_text` to everything that is drawn, including widgets of Textual."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]
