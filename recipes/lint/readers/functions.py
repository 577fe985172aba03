"""Functions of a script. Their settings apply from each call on."""

from __future__ import annotations

import re

from recipes.lint.readers.exported import Changes
from recipes.lint.readers.words import Token

_NAME = re.compile(r"[A-Za-z_][\w.:-]*")
_BEFORE_COMMANDS = frozenset({"then", "else", "elif", "do", "{", "!", "time", "if", "while", "until"})


class Function:
    """The body of a function, and the changes of a call, once the body was read."""

    __slots__ = ("body", "changes", "depth", "is_open", "runs_words")

    def __init__(self, body: list[Token], depth: int) -> None:
        self.body = body
        self.depth = depth
        """Number of scripts and functions around this function."""
        self.runs_words = _runs_words(body)
        """Whether the body runs `"$@"`, so that the arguments of a call are a command."""
        self.changes: Changes | None = None
        """Changes of the environment by a call; None before the first call."""
        self.is_open = False
        """True while the body is read, as a function may call itself."""


def closing_braces(tokens: list[Token]) -> dict[int, int]:
    """Return, for each `{` that opens commands, the number of its `}`."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for number, token in enumerate(tokens):
        if token.word is None or token.word.quoted or token.word.text not in ("{", "}"):
            continue
        if not _begins_command(tokens, number):
            continue
        if token.word.text == "{":
            opened.append(number)
        elif opened:
            closing[opened.pop()] = number
    return closing


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
    """Return the name of the function that is defined here, and the numbers of its first and last token.

    None if no definition starts here.
    """
    start = at
    has_keyword = _text(tokens, at) == "function"
    at += has_keyword
    name = _text(tokens, at)
    if name is None or _NAME.fullmatch(name) is None:
        return None
    at += 1
    has_brackets = [token.text for token in tokens[at : at + 2]] == ["(", ")"]
    at += 2 * has_brackets
    while at < len(tokens) and tokens[at].kind in ("newline", "comment"):
        at += 1
    if not (has_keyword or has_brackets) or at not in braces or start >= at:
        return None
    return name, at + 1, braces[at]


def _text(tokens: list[Token], at: int) -> str | None:
    word = tokens[at].word if 0 <= at < len(tokens) else None
    return None if word is None or word.quoted else word.text
