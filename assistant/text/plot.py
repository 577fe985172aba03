"""Draw curves with Braille dots: each character has two columns of four dots.

The dots are small enough to show a bend in a curve. On a terminal without Unicode, asterisks replace the
dots.
"""

import itertools
import math
from collections.abc import Callable, Sequence

from assistant.pages.blocks import Figure, Span, Tone, Words, words

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character by row and column (Unicode, block U+2800)."""
_BLANK = 0x2800
_TONES: tuple[Tone, ...] = ("code", "caution", "odd", "good")
_HEIGHT = 8


def draw(figure: Figure, *, width: int, height: int = _HEIGHT) -> list[Words]:
    """Return the lines of the figure: title, `height` rows and the axis.

    Each curve has its name at its right end.
    """
    points = [point for curve in figure.curves for point in curve.points]
    top = max(*(y for _, y in points), math.nextafter(figure.floor, math.inf))
    labels = {0: figure.y_words(top), height - 1: figure.y_words(figure.floor)}
    left = max(map(len, labels.values()))
    columns = max(8, width - left - max(len(curve.name) for curve in figure.curves) - 3)
    position = _scale([x for x, _ in points], columns * 2 - 1, math.log if figure.is_log else float)

    cells: dict[tuple[int, int], tuple[int, Tone]] = {}
    ends: dict[int, Span] = {}
    for number, curve in enumerate(figure.curves):
        tone = _TONES[number % len(_TONES)]
        dots = [(position(x), _row(y, figure.floor, top, height * 4 - 1)) for x, y in curve.points]
        for column, row in _line(dots):
            bits, _ = cells.get((row // 4, column // 2), (0, ""))
            cells[row // 4, column // 2] = (bits | _DOTS[row % 4][column % 2], tone)
        ends[_free(dots[-1][1] // 4, ends, height)] = Span(f" {curve.name}", tone)

    lines = [words((figure.title, "strong"))]
    for row in range(height):
        here = (cells.get((row, column), (0, "")) for column in range(columns))
        line = [
            (f"{labels.get(row, ''):>{left}} │", "dim"),
            *((chr(_BLANK + bits) if bits else " ", tone) for bits, tone in here),
        ]
        lines.append(words(*line, ends.get(row, "")))
    first, last = (figure.x_words(end([x for x, _ in points])) for end in (min, max))
    axis = f"{first}{last:>{columns - len(first)}}" if len(first) + len(last) < columns else ""
    return [*lines, words((f"{'':{left}} └{'─' * columns}", "dim")), words((f"{'':{left}}  {axis}", "dim"))]


def _scale(values: Sequence[float], cells: int, measure: Callable[[float], float]) -> Callable[[float], int]:
    low, high = measure(min(values)), measure(max(values))
    return lambda value: round((measure(value) - low) / (high - low) * cells) if high > low else 0


def _row(value: float, floor: float, top: float, rows: int) -> int:
    return rows - round(min(1.0, max(0.0, (value - floor) / (top - floor))) * rows)


def _line(dots: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the given dots, and the dots that connect neighbouring dots."""
    whole = list(dots[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(dots):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        whole += [
            (x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps))
            for step in range(1, steps + 1)
        ]
    return whole


def _free(wanted: int, taken: dict[int, Span], height: int) -> int:
    """Return the row nearest to `wanted` in which no curve's name is written yet."""
    return min(
        (row for row in range(height) if row not in taken), key=lambda row: abs(row - wanted), default=wanted
    )
