"""Functions of a script: where their bodies stand. What they set holds from where they are called."""

from __future__ import annotations

import re

from recipes.lint.readers.exported import Changes
from recipes.lint.readers.words import Token

_NAME = re.compile(r"[A-Za-z_][\w.:-]*")
_BEFORE_COMMANDS = frozenset({"then", "else", "elif", "do", "{", "!", "time", "if", "while", "until"})


class Function:
    """The body of one, and what a call changes, once it was read."""

    __slots__ = ("body", "changes", "depth", "is_open", "runs_words")

    def __init__(self, body: list[Token], depth: int) -> None:
        self.body = body
        self.depth = depth
        """How many scripts and functions it stands in."""
        self.runs_words = _runs_words(body)
        """`"$@"`: what it is called with is a command."""
        self.changes: Changes | None = None
        """None before the first call."""
        self.is_open = False
        """While its body is read: it may call itself."""


def closing_braces(tokens: list[Token]) -> dict[int, int]:
    """For each `{` that opens commands, the number of its `}`."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for number, token in enumerate(tokens):
        if token.word is None or token.word.quoted or token.word.text not in ("{", "}"):
            continue
        if not _begins_command(tokens, number):
            continue
        if token.word.text == "{":
            opened.append(number)
        elif opened:
            found[opened.pop()] = number
    return found


def _runs_words(body: list[Token]) -> bool:
    words = ((number, token.word) for number, token in enumerate(body))
    return any(
        word is not None and word.text == "$@" and _begins_command(body, number) for number, word in words
    )


def _begins_command(tokens: list[Token], number: int) -> bool:
    before = tokens[number - 1] if number else None
    if before is None or before.word is None:
        return True
    word = before.word
    return _text(tokens, number - 2) == "function" or (not word.quoted and word.text in _BEFORE_COMMANDS)


def function_at(tokens: list[Token], at: int, braces: dict[int, int]) -> tuple[str, int, int] | None:
    """The name of a function that is defined here, and where its body begins and ends; None where none is."""
    start = at
    is_told = _text(tokens, at) == "function"
    at += is_told
    name = _text(tokens, at)
    if name is None or _NAME.fullmatch(name) is None:
        return None
    at += 1
    has_brackets = [token.text for token in tokens[at : at + 2]] == ["(", ")"]
    at += 2 * has_brackets
    while at < len(tokens) and tokens[at].kind in ("newline", "comment"):
        at += 1
    if not (is_told or has_brackets) or at not in braces or start >= at:
        return None
    return name, at + 1, braces[at]


def _text(tokens: list[Token], at: int) -> str | None:
    word = tokens[at].word if 0 <= at < len(tokens) else None
    return None if word is None or word.quoted else word.text
