"""Changes that are safe: the file does what it did, but for the mistake. Where that is in doubt there are
none.
"""

from __future__ import annotations

import functools
import re

from recipes.lint.document import Document, Place, Setting, lines_of
from recipes.lint.finding import Edit

_REMOVABLE = ("shell", "sbatch", "dotenv", "nccl-conf")
_MOST_PLACES = 50


def rename(document: Document, item: Setting, name: str) -> tuple[Edit, ...]:
    """Another name wherever the file says this one, but in comments: `export`, `$NAME`, `-x NAME`."""
    places = _places_of(document, item.name)
    if _places_of(document, name) or len(places) > _MOST_PLACES:
        return ()  # the new name is taken, or this is written by a program
    return tuple(Edit(place=place, text=name) for place in places)


def rewrite(document: Document, item: Setting, text: str) -> tuple[Edit, ...]:
    """Another value in the place of the one written, with the same quotes."""
    place = item.value_place
    if place is None or place.end_column is None or place.end_line not in (None, place.line):
        return ()
    lines = document.lines
    here = (
        lines[place.line - 1][place.column - 1 : place.end_column - 1] if 0 < place.line <= len(lines) else ""
    )
    if "$" in here or not here:
        return ()
    quote = here[:1] if here[:1] in ("'", '"') else ""
    return (Edit(place=place, text=f"{quote}{text}{quote}"),)


def removal(document: Document, item: Setting) -> tuple[Edit, ...]:
    """The line is dropped where it does nothing but set this variable, and nothing else in the file asks for
    it.
    """
    lines = document.lines
    line = item.place.line
    if not 0 < line <= len(lines) or document.kind not in _REMOVABLE or _is_used(document, item.name):
        return ()
    before = lines[line - 2] if line > 1 else ""
    if (
        not re.fullmatch(_alone(item.name), lines[line - 1])
        or before.endswith("\\")
        or _is_only_body(lines, line)
    ):
        return ()
    return (Edit(place=Place(line=line, column=1, end_line=line + 1, end_column=1), text=""),)


def _places_of(document: Document, name: str) -> tuple[Place, ...]:
    """Where the name stands as a whole word outside of comments."""
    return _places_in(document.text, name)


@functools.lru_cache(maxsize=64)
def _places_in(text: str, name: str) -> tuple[Place, ...]:
    word = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])")
    return tuple(
        Place(line=number, column=match.start() + 1, end_line=number, end_column=match.end() + 1)
        for number, line in enumerate(lines_of(text), 1)
        if name in line and not line.lstrip().startswith(("#", "//"))
        for match in word.finditer(line)
    )


def _alone(name: str) -> str:
    """A line that sets the variable and does nothing else."""
    return rf"\s*(?:export\s+)?{re.escape(name)}=(?:[^\s;&|\"'\\]*|\"[^\"]*\"|'[^']*')\s*(?:#.*)?"


def _is_used(document: Document, name: str) -> bool:
    """Whether a line says the name and does more than set it: a script under `set -u` ends where it is
    gone.
    """
    return _is_used_in(document.text, name)


@functools.lru_cache(maxsize=64)
def _is_used_in(text: str, name: str) -> bool:
    lines = lines_of(text)
    return any(not re.fullmatch(_alone(name), lines[place.line - 1]) for place in _places_in(text, name))


def _is_only_body(lines: tuple[str, ...], number: int) -> bool:
    """An `if` or a loop with nothing in it is no shell."""
    before = lines[number - 2].strip() if number > 1 else ""
    after = lines[number].strip() if number < len(lines) else ""
    return bool(re.search(r"(?:^|\s)(?:then|do|else|\{|\))$", before)) and bool(
        re.match(r"(?:fi|done|else|elif|\}|;;)\b|\}|;;", after)
    )
