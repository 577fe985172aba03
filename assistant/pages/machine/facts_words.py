"""Build lines of facts from parts that are known or unknown."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assistant.pages.blocks import Tone
from probes.base.record import Reason, T, Unknown, first_unknown, only_known
from probes.base.units import gib, plural

Part = tuple[str, str | Unknown]
"""Name of a value, and the value as text.

Names are shown only for unknown values; empty texts are left out.
"""

QUIET = (Reason.NOT_RECORDED, Reason.NOT_SUPPORTED)
"""Reasons that a user cannot remove: the source does not contain the value, or the device lacks it."""


class Line(NamedTuple):
    """One line of a section before it is wrapped."""

    text: str
    unknown: tuple[tuple[str, Unknown], ...] = ()
    """Names of values with the reason why they are unknown."""
    tone: Tone = ""


class Subject(NamedTuple):
    """A subject of the page."""

    label: str
    lines: tuple[Line, ...]


def subject(label: str, lines: Sequence[Line | str]) -> Subject:
    """Return a subject with these lines, without empty lines."""
    made = (Line(line) if isinstance(line, str) else line for line in lines)
    return Subject(label, tuple(line for line in made if line.text or line.unknown))


def unknown_subject(label: str, why: Unknown) -> Subject:
    """Return a subject about which nothing is known."""
    return Subject(label, (Line("", (("", why),)),))


def joined(parts: Iterable[Part], *, head: str = "", tone: Tone = "") -> Line:
    """Return the known texts in order after `head`, and the names of the unknown values.

    If no text is known, `head` is left out.
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
    """Return `value` as text; an unknown value stays unknown."""
    if isinstance(value, Unknown):
        return value
    return none if value is None else form.format(value)


def size(value: int | Unknown | None, form: str = "{}", none: str = "") -> str | Unknown:
    """Return a size in bytes as text; an unknown size stays unknown."""
    return said(gib(value) if isinstance(value, int) else value, form, none)


def counted(value: int | Unknown, noun: str) -> str | Unknown:
    """Return a number with its noun: `1 core`, `8 cores`; an unknown number stays unknown."""
    return value if isinstance(value, Unknown) else plural(value, noun)


def noted(value: T | Unknown | None, *usual: T, form: str = "{}") -> str | Unknown:
    """Return `value` as text, or an empty text if it is one of the `usual` values."""
    return "" if value in usual else said(value, form)


def flag(value: bool | Unknown | None, *, yes: str = "", no: str = "") -> str | Unknown:
    """Return the text for true or for false; an unknown value stays unknown."""
    if isinstance(value, Unknown):
        return value
    return {None: "", True: yes, False: no}[value]


def ranged(values: Iterable[float | Unknown], unit: str) -> str | Unknown:
    """Return `31-36 °C` over several devices.

    If no value is known, return the first Unknown; without any value, return an empty text.
    """
    given = list(values)
    numbers = only_known(given)
    if not numbers:
        return first_unknown(*given) or ""
    low, high = f"{min(numbers):.0f}", f"{max(numbers):.0f}"
    return f"{low} {unit}" if low == high else f"{low}-{high} {unit}"


def cut(text: str, most: int) -> str:
    """Return `text` on one line, cut to `most` characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1] + "…"


def first(items: Sequence[str], most: int, more: str = "more") -> list[str]:
    """Return the first `most` of `items` and the number of the remaining items.

    If only one item is left, it is shown too.
    """
    if len(items) <= most + 1:
        return list(items)
    return [*items[:most], f"and {len(items) - most} {more}"]
