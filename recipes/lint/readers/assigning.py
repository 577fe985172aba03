"""`NAME=value` as a word of a script."""

from __future__ import annotations

import re

from recipes.lint.document import Reach, Setting
from recipes.lint.readers.words import Word

ASSIGNING = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
"""The name, the part in brackets, and the plus of `NAME+=`."""

_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=([^{}]*)\}")


def default_in(word: Word, *, reaches: Reach) -> Setting | None:
    """Return the setting of `${NAME:=value}`.

    Its value is unknown, as the environment's own value has precedence.
    """
    match = _DEFAULT.fullmatch(word.text)
    if match is None:
        return None
    return Setting(
        name=match[1],
        value=None,
        written=match[2],
        is_literal=False,
        place=word.place,
        is_conditional=True,
        reaches=reaches,
    )


def is_assignment(word: Word) -> bool:
    match = ASSIGNING.match(word.text)
    return match is not None and word.written.text.startswith(match[0])


def value_begin(word: Word) -> int:
    """Return the offset of the value in the word as written."""
    match = ASSIGNING.match(word.written.text)
    return match.end() if match else 0


def value_of(word: Word, start: int) -> Word:
    """Return the part of `NAME=value` after the sign."""
    part = Word(
        word.written.part(value_begin(word), len(word.written.text)),
        word.span.part(start, len(word.text)),
        tuple(
            expansion.moved(expansion.start - start)
            for expansion in word.expansions
            if expansion.start >= start
        ),
        word.quoted,
    )
    part.elements = word.elements
    return part
