"""Safe changes: the file does the same as before, apart from the mistake.

If that is in doubt, the functions return no change.
"""

from __future__ import annotations

import functools
import re

from recipes.lint.document import Document, Place, Setting, lines_of
from recipes.lint.finding import Edit

_REMOVABLE = ("shell", "sbatch", "dotenv", "nccl-conf")
_MOST_PLACES = 50


def rename(document: Document, item: Setting, name: str) -> tuple[Edit, ...]:
    """Return edits that replace a variable's name everywhere except in comments.

    This covers `export`, `$NAME` and `-x NAME`.
    """
    places = _places_of(document, item.name)
    if _places_of(document, name) or len(places) > _MOST_PLACES:
        return ()  # the file uses the new name already, or a program wrote the file
    return tuple(Edit(place=place, text=name) for place in places)


def rewrite(document: Document, item: Setting, text: str) -> tuple[Edit, ...]:
    """Return an edit that replaces the value of a setting and keeps its quotes."""
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
    """Return an edit that deletes the line of a setting.

    The line must do nothing else, and no other line of the file may use the variable.
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
    """Return the places outside of comments where the name is a whole word."""
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
    """Return the expression of a line that sets the variable and does nothing else."""
    return rf"\s*(?:export\s+)?{re.escape(name)}=(?:[^\s;&|\"'\\]*|\"[^\"]*\"|'[^']*')\s*(?:#.*)?"


def _is_used(document: Document, name: str) -> bool:
    """Return whether a line uses the name other than by setting the variable.

    A script under `set -u` would end there if the variable were removed.
    """
    return _is_used_in(document.text, name)


@functools.lru_cache(maxsize=64)
def _is_used_in(text: str, name: str) -> bool:
    lines = lines_of(text)
    return any(not re.fullmatch(_alone(name), lines[place.line - 1]) for place in _places_in(text, name))


def _is_only_body(lines: tuple[str, ...], number: int) -> bool:
    """Return whether the line is all of an `if` or a loop: the shell refuses an empty body."""
    before = lines[number - 2].strip() if number > 1 else ""
    after = lines[number].strip() if number < len(lines) else ""
    return bool(re.search(r"(?:^|\s)(?:then|do|else|\{|\))$", before)) and bool(
        re.match(r"(?:fi|done|else|elif|\}|;;)\b|\}|;;", after)
    )
