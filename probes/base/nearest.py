"""Suggest the known names that are most similar to a name that does not exist."""

import re
from collections.abc import Iterable

_COMPARED = 80
"""Number of characters of a name that are compared: the time of a comparison grows with their square."""


def nearest(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.5) -> list[str]:
    """Return at most `most` of `names`, the most similar first.

    `cutoff` is the least similarity of a name, from 0 (any name) to 1 (an equal name).
    """
    import difflib  # noqa: PLC0415 - only a wrong name needs it

    return difflib.get_close_matches(name.strip().lower()[:_COMPARED], list(names), n=most, cutoff=cutoff)


def did_you_mean(
    name: str, names: Iterable[str], rest: str = "", *, most: int = 1, cutoff: float = 0.5
) -> str:
    """Return a hint: `did you mean A or B?` if names are similar, followed by `rest`."""
    return suggestion(nearest(name, names, most=most, cutoff=cutoff), rest)


def suggestion(near: Iterable[str], rest: str = "") -> str:
    """Return a hint: `did you mean A or B?` if `near` contains names, followed by `rest`."""
    meant = " or ".join(near)
    return " ".join(filter(None, (meant and f"did you mean {meant}?", rest)))


def letters_and_digits(name: str) -> str:
    """Return the letters and digits of `name` in lower case: `ResNet-50` and `resnet_50` are equal."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
