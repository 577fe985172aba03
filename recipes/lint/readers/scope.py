"""The variables of a script that are known before it runs."""

from __future__ import annotations

from recipes.lint.readers.span import Span
from recipes.lint.readers.words import Word, words_of

_DEPTH = 8
_LONGEST = 8192
_MOST_WORDS = 2000
_MOST_STEPS = 100_000
"""Expansions that are followed in one file, as variables of variables may multiply without end."""


class _Value:
    __slots__ = ("elements", "is_certain", "pieces")

    def __init__(self, pieces: list[Word], elements: list[Word] | None, *, is_certain: bool) -> None:
        self.pieces = pieces
        """Words that follow each other without a blank: those of `A=x` and `A+=y`."""
        self.elements = elements
        """Elements of an array."""
        self.is_certain = is_certain


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

    def copy(self) -> Scope:
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
                self._values[name] = _Value([], joined, is_certain=certain)
            else:
                self._values[name] = _Value([*old.pieces, word][:_MOST_WORDS], None, is_certain=certain)
            return
        if any(expansion.name == name for expansion in word.expansions):
            word = self._inlined(word)  # `ARGS="$ARGS --more"`
        self._values[name] = _Value([word], elements, is_certain=not conditional)

    def forget(self, name: str) -> None:
        """Mark a variable as unset or as known by the run only."""
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

        Any other word is returned itself.
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
            return [word]  # it may have another value; options are read even then, rather than lost
        words: list[Word] = []
        for command in inner:
            if len(words) >= _MOST_WORDS:
                break
            words += self.split(command, depth + 1)
        return words or ([] if value.elements is not None or not inner else [word])

    def inline(self, word: Word) -> tuple[Span, frozenset[str]]:
        """Return the script in a word with known variables filled in.

        The second value is the names that expand before the script is started.
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
                for number, one in enumerate(value.elements or value.pieces):
                    inner = self._inlined(one, depth + 1, names)
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
