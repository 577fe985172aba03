"""Suggest the known names that are most similar to a name that does not exist."""

from collections.abc import Iterable

_COMPARED = 80
"""Number of characters of a name that are compared: the time of a comparison grows with their square."""


def nearest(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.5) -> list[str]:
    """Return at most `most` of `names`, the most similar first; similarity ranges from 0 to 1."""
    import difflib  # noqa: PLC0415 - only a wrong name needs it

    return difflib.get_close_matches(name.strip().lower()[:_COMPARED], list(names), n=most, cutoff=cutoff)


def did_you_mean(
    name: str, names: Iterable[str], rest: str = "", *, most: int = 1, cutoff: float = 0.5
) -> str:
    """Return a hint: `did you mean A or B?` if names are similar, followed by `rest`."""
    near = nearest(name, names, most=most, cutoff=cutoff)
    question = f"did you mean {' or '.join(near)}?" if near else ""
    return " ".join(filter(None, (question, rest)))
