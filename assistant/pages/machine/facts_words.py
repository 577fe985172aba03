"""Lines of facts: parts of a line, each known or not, and what the page says of the unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from assistant.pages.blocks import Tone
from probes.base.record import Reason, Unknown
from probes.base.units import gib

T = TypeVar("T")

Part = tuple[str, str | Unknown]
"""Name of a value, used where it is unknown, and its words where it is known; no words where it is not worth
any.
"""

QUIET = (Reason.NOT_RECORDED, Reason.NOT_SUPPORTED)
"""Why a value is missing without anybody's doing: the source does not tell it, or the device has none."""


class Line(NamedTuple):
    """One line of a section before it is wrapped."""

    text: str
    unknown: tuple[tuple[str, Unknown], ...] = ()
    """Names of values with why they are unknown."""
    tone: Tone = ""


class Subject(NamedTuple):
    """A subject of the page."""

    label: str
    lines: tuple[Line, ...]


def subject(label: str, lines: Sequence[Line | str]) -> Subject:
    """Return a subject of lines; what is empty is left out."""
    made = (Line(line) if isinstance(line, str) else line for line in lines)
    return Subject(label, tuple(line for line in made if line.text or line.unknown))


def unknown_subject(label: str, why: Unknown) -> Subject:
    """Return a subject of which nothing is known."""
    return Subject(label, (Line("", (("", why),)),))


def joined(parts: Iterable[Part], *, head: str = "", tone: Tone = "") -> Line:
    """Return the known words in their order behind `head`, which is left out without any, and the names of
    the unknown.
    """
    words: list[str] = []
    unknown: list[tuple[str, Unknown]] = []
    for name, value in parts:
        if isinstance(value, Unknown):
            unknown.append((name, value))
        elif value:
            words.append(value)
    return Line(f"{head}{', '.join(words)}" if words else "", tuple(unknown), tone)


def said(value: T | Unknown | None, form: str = "{}", none: str = "") -> str | Unknown:
    """`value` in words; an unknown stays one."""
    if isinstance(value, Unknown):
        return value
    return none if value is None else form.format(value)


def size(value: int | Unknown | None, form: str = "{}", none: str = "") -> str | Unknown:
    """The same for a size in bytes."""
    return said(gib(value) if isinstance(value, int) else value, form, none)


def noted(value: T | Unknown | None, *usual: T, form: str = "{}") -> str | Unknown:
    """`value` in words where it is none of the `usual` ones, which are not worth any."""
    return "" if value in usual else said(value, form)


def flag(value: bool | Unknown | None, *, yes: str = "", no: str = "") -> str | Unknown:
    """Words for each answer."""
    if isinstance(value, Unknown):
        return value
    return "" if value is None else yes if value else no


def together(items: Iterable[tuple[str, Line]]) -> dict[Line, list[str]]:
    """Names by their description, in the order of first appearance."""
    groups: dict[Line, list[str]] = {}
    for name, line in items:
        groups.setdefault(line, []).append(name)
    return groups


def ranged(values: Iterable[float | Unknown], unit: str) -> str | Unknown:
    """`31-36 °C` over several devices; the first unknown where no value is known, and no words without any
    value.
    """
    given = list(values)
    numbers = [value for value in given if not isinstance(value, Unknown)]
    if not numbers:
        return next((value for value in given if isinstance(value, Unknown)), "")
    low, high = f"{min(numbers):.0f}", f"{max(numbers):.0f}"
    return f"{low} {unit}" if low == high else f"{low}-{high} {unit}"


def cut(text: str, most: int) -> str:
    """`text` on one line, cut where it is longer than `most`."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1] + "…"


def first(items: Sequence[str], most: int, more: str = "more") -> list[str]:
    """The first `most` of `items`, and how many were left out; one too many is shown all the same."""
    if len(items) <= most + 1:
        return list(items)
    return [*items[:most], f"and {len(items) - most} {more}"]
