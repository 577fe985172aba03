"""Curves drawn with Braille dots, two by four to a character: small enough for a report, fine enough to see a
knee.

`assistant.present.text` has no say here: whoever prints to a terminal without Unicode turns the dots into
asterisks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character by row and column (Unicode, block U+2800)."""
_BLANK = 0x2800
_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
_HEIGHT = 8


class Curve(NamedTuple):
    """Points from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


class Figure(NamedTuple):
    """Curves over one axis."""

    title: str
    curves: tuple[Curve, ...]
    x_words: Callable[[float], str]
    y_words: Callable[[float], str]
    is_log: bool = False
    """The horizontal axis grows by factors, as sizes do."""
    floor: float = 0.0
    """Where the vertical axis begins."""


def draw(figure: Figure, *, width: int, height: int = _HEIGHT) -> Text:
    """The figure in `width` columns and `height` rows besides title and axis; each curve has its name at its
    right end.
    """
    points = [point for curve in figure.curves for point in curve.points]
    top = max(*(y for _, y in points), math.nextafter(figure.floor, math.inf))
    labels = {0: figure.y_words(top), height - 1: figure.y_words(figure.floor)}
    left = max(map(len, labels.values()))
    right = max(len(curve.name) for curve in figure.curves)
    columns = max(8, width - left - right - 3)
    position = _scale([x for x, _ in points], columns * 2 - 1, math.log if figure.is_log else float)

    cells: dict[tuple[int, int], tuple[int, str]] = {}
    ends: dict[int, tuple[str, str]] = {}
    for number, curve in enumerate(figure.curves):
        colour = _COLOURS[number % len(_COLOURS)]
        dots = [(position(x), _row(y, figure.floor, top, height * 4 - 1)) for x, y in curve.points]
        for column, row in _line(dots):
            bits, _ = cells.get((row // 4, column // 2), (0, ""))
            cells[row // 4, column // 2] = (bits | _DOTS[row % 4][column % 2], colour)
        ends[_free(dots[-1][1] // 4, ends, height)] = (curve.name, colour)

    page = Text.assemble((f"{figure.title}\n", "bold"))
    for row in range(height):
        page.append(f"{labels.get(row, ''):>{left}} ", "dim").append("│", "dim")
        for column in range(columns):
            bits, colour = cells.get((row, column), (0, ""))
            page.append(chr(_BLANK + bits) if bits else " ", colour)
        name, colour = ends.get(row, ("", ""))
        page.append(f" {name}".rstrip() + "\n", colour)
    first, last = (figure.x_words(end([x for x, _ in points])) for end in (min, max))
    axis = f"{first}{last:>{columns - len(first)}}" if len(first) + len(last) < columns else ""
    return page.append(f"{'':{left}} └{'─' * columns}\n{'':{left}}  {axis}", "dim")


def _scale(values: Sequence[float], cells: int, measure: Callable[[float], float]) -> Callable[[float], int]:
    low, high = measure(min(values)), measure(max(values))
    return lambda value: round((measure(value) - low) / (high - low) * cells) if high > low else 0


def _row(value: float, floor: float, top: float, rows: int) -> int:
    return rows - round(min(1.0, max(0.0, (value - floor) / (top - floor))) * rows)


def _line(dots: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The dots and what lies between them."""
    found = list(dots[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(dots):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        found += [
            (x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps))
            for step in range(1, steps + 1)
        ]
    return found


def _free(wanted: int, taken: dict[int, tuple[str, str]], height: int) -> int:
    """The row nearest to `wanted` that has no name yet."""
    return min(
        (row for row in range(height) if row not in taken), key=lambda row: abs(row - wanted), default=wanted
    )
