"""The variables of a script: assignments, values that are known before the run, and exports."""

import re

import msgspec

from recipes.lint.document import Reach, Setting
from recipes.lint.readers.span import Span
from recipes.lint.readers.words import Word, words_of

_DEPTH = 8
_LONGEST = 8192
_MOST_WORDS = 2000
_MOST_STEPS = 100_000
"""Largest number of expansions in one file: variables that contain variables may expand without limit."""


class _Value(msgspec.Struct, eq=False):
    pieces: list[Word]
    """Words that follow each other without a blank: `x` and `y` after `A=x` and `A+=y`."""
    elements: list[Word] | None
    """Elements of an array."""
    is_certain: bool


class Scope:
    """The value of each variable at this point of the script."""

    def __init__(self) -> None:
        self._values: dict[str, _Value | None] = {}
        self.exported: set[str] = set()
        self.exports_all = False
        self._steps = [_MOST_STEPS]

    def _value(self, name: str | None) -> _Value | None:
        if name is None or self._steps[0] <= 0:
            return None
        self._steps[0] -= 1
        return self._values.get(name)

    def copy(self) -> "Scope":
        other = Scope()
        other._values, other.exported, other.exports_all = (
            dict(self._values),
            set(self.exported),
            self.exports_all,
        )
        other._steps = self._steps
        return other

    def assign(self, name: str, word: Word, *, conditional: bool, append: bool) -> None:
        """Assign `NAME=word` or `NAME+=word`; `word` is the value alone."""
        old = self._values.get(name)
        elements = list(word.elements) if word.elements is not None else None
        if append and old is not None:  # `+=` adds elements to an array, and text to any other variable
            certain = old.is_certain and not conditional
            if elements is not None or old.elements is not None:
                joined = ((old.elements or old.pieces) + (elements if elements is not None else [word]))[
                    :_MOST_WORDS
                ]
                self._values[name] = _Value([], joined, certain)
            else:
                self._values[name] = _Value([*old.pieces, word][:_MOST_WORDS], None, certain)
            return
        if any(expansion.name == name for expansion in word.expansions):
            word = self._inlined(word)  # `ARGS="$ARGS --more"`
        self._values[name] = _Value([word], elements, not conditional)

    def forget(self, name: str) -> None:
        """Mark the value of a variable as unknown or unset."""
        self._values[name] = None

    def resolve(self, word: Word, depth: int = 0) -> tuple[str, bool]:
        """Return the text with known variables filled in, and whether nothing is left to expand."""
        if not word.expansions:
            return word.text, True
        pieces: list[str] = []
        at, is_literal = 0, True
        for expansion in word.expansions:
            pieces.append(word.text[at : expansion.start])
            known = self._text_of(expansion.name, depth)
            pieces.append(word.text[expansion.start : expansion.end] if known is None else known)
            is_literal = is_literal and known is not None
            at = expansion.end
        text = "".join((*pieces, word.text[at:]))
        return (text, is_literal) if len(text) <= _LONGEST else (word.text, False)

    def _text_of(self, name: str | None, depth: int) -> str | None:
        value = self._value(name)
        if value is None or not value.is_certain or value.elements is not None or depth >= _DEPTH:
            return None
        texts = [self.resolve(piece, depth + 1) for piece in value.pieces]
        text = "".join(text for text, _ in texts)
        return text if all(literal for _, literal in texts) and len(text) <= _LONGEST else None

    def split(self, word: Word, depth: int = 0) -> list[Word]:
        """Return the words that an unquoted `$ARGS` or a `"${ARGS[@]}"` becomes.

        Any other word is returned unchanged.
        """
        if len(word.expansions) != 1 or depth >= _DEPTH:
            return [word]
        expansion = word.expansions[0]
        is_whole = expansion.start == 0 and expansion.end == len(word.text)
        value = self._value(expansion.name)
        if not is_whole or value is None or (word.quoted and not expansion.is_list):
            return [word]
        if value.elements is not None:
            inner = value.elements
        else:
            inner = [part for piece in value.pieces for part in words_of(piece.span)]
        if not value.is_certain and len(inner) == 1 and not inner[0].text.startswith("-"):
            return [word]  # the value is uncertain; an uncertain value is read only if it is an option
        words: list[Word] = []
        for command in inner:
            if len(words) >= _MOST_WORDS:
                break
            words += self.split(command, depth + 1)
        return words or ([] if value.elements is not None or not inner else [word])

    def inline(self, word: Word) -> tuple[Span, frozenset[str]]:
        """Return the script in a word with known variables filled in.

        The second value contains the names of the variables that expand before the script is started.
        """
        names: set[str] = set()
        return self._inlined(word, names=names).span, frozenset(names)

    def _inlined(self, word: Word, depth: int = 0, names: set[str] | None = None) -> Word:
        pieces: list[str] = []
        offsets: list[int] = []
        at = 0
        left = []
        for expansion in word.expansions:
            pieces.append(word.text[at : expansion.start])
            offsets += word.span.offsets[at : expansion.start]
            value = self._value(expansion.name)
            if value is not None and depth < _DEPTH and len(offsets) < _LONGEST:
                for number, piece in enumerate(value.elements or value.pieces):
                    inner = self._inlined(piece, depth + 1, names)
                    if number and value.elements is not None:
                        pieces.append(" ")
                        offsets.append(word.span.offsets[expansion.start])
                    pieces.append(inner.text)
                    offsets += inner.span.offsets
            else:
                if names is not None and expansion.name:
                    names.add(expansion.name)
                begin = len(offsets)
                pieces.append(word.text[expansion.start : expansion.end])
                offsets += word.span.offsets[expansion.start : expansion.end]
                left.append(expansion.moved(begin))
            at = expansion.end
        pieces.append(word.text[at:])
        offsets += word.span.offsets[at:]
        return Word(word.written, Span("".join(pieces), offsets, word.span.lines), tuple(left), word.quoted)


Changes = dict[str, Setting | None]
"""The new setting of each variable; None if it was unset."""
_MOST_HANDED = 1_000_000
"""Largest number of settings for all commands of one file together.

Without a limit, alternating exports and commands need quadratic memory.
"""


class Exported:
    """The variables that are exported now. Changes can be undone, for example at the end of a subshell."""

    def __init__(self) -> None:
        self._now: dict[str, Setting] = {}
        self._before: list[tuple[str, Setting | None]] = []
        """Name and previous setting of each change."""
        self._handed: tuple[Setting, ...] | None = ()
        self._left = _MOST_HANDED

    def handed(self) -> tuple[Setting, ...]:
        """Return the variables that a command gets now, each name once.

        After a million settings the result is empty: nobody writes such a file by hand.
        """
        if self._handed is None:
            self._left -= len(self._now)
            self._handed = tuple(self._now.values()) if self._left > 0 else ()
        return self._handed

    def get(self, name: str) -> Setting | None:
        return self._now.get(name)

    def put(self, name: str, setting: Setting | None) -> None:
        """Export a variable with this setting from here on, or unset it."""
        self._before.append((name, self._now.pop(name, None)))
        if setting is not None:
            self._now[name] = setting
        self._handed = None

    def mark(self) -> int:
        """Return a point to which `back_to` can return."""
        return len(self._before)

    def since(self, mark: int) -> Changes:
        """Return the changes since a mark."""
        return {name: self._now.get(name) for name, _ in self._before[mark:]}

    def back_to(self, mark: int) -> Changes:
        """Undo the changes since a mark, and return them."""
        undone = self.since(mark)
        while len(self._before) > mark:
            name, old = self._before.pop()
            self._now.pop(name, None)
            if old is not None:
                self._now[name] = old
        self._handed = None
        return undone

    def again(self, changes: Changes) -> None:
        """Repeat changes that were undone."""
        for name, setting in changes.items():
            self.put(name, setting)


_ASSIGNING = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
"""The name, the part in brackets, and the plus of `NAME+=`."""

_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=([^{}]*)\}")


def default_in(word: Word, *, reaches: Reach) -> Setting | None:
    """Return the setting of `${NAME:=value}`.

    The value is unknown, because a value in the environment has precedence.
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


class Assignment(msgspec.Struct, eq=False):
    """A word of the form `NAME=value`, `NAME[1]=value` or `NAME+=value`."""

    word: Word
    name: str
    value: Word
    begin: int
    """Offset of the value in the word."""
    is_element: bool
    appends: bool


def assignment_in(word: Word) -> Assignment | None:
    """Return the word as an assignment; None if the word is not an assignment."""
    match = _ASSIGNING.match(word.text)
    if match is None or not word.written.text.startswith(match[0]):
        return None
    begin = match.end()
    written = word.written.part(begin, len(word.written.text))
    value = msgspec.structs.replace(word.after(begin), written=written, elements=word.elements)
    return Assignment(word, match[1], value, begin, bool(match[2]), bool(match[3]))
