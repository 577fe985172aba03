"""The words of a shell script: quotes, expansions and here-documents, each with its place.

This is not a parser of the whole language. Rules need only settings and commands. The reader must also accept
half a script, a template with braces, or a script for another shell. Source of the grammar: POSIX.1-2024,
chapter 2, and the bash manual 5.2.
"""

import re
from typing import Literal

import msgspec

from recipes.lint.document import Place
from recipes.lint.readers.span import Span

_FAILED_SCANS = 2_000_000
"""Largest number of characters of one file that are searched for the ends of unclosed brackets."""
_LONGEST_NESTED = 20_000
"""Length in characters of the longest script in which quotes inside of `${ }` are matched."""
_LONGEST_TEMPLATE = 1000
"""Largest number of characters between double braces."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*)(\[[@*]\])?(:?[-=?].*)?\}", re.DOTALL)
"""An expansion with the value of the variable, if the variable is set.

`${NAME:+text}` does not count, because its value is the text.
"""
_OPERATORS = (
    *(";;&", "&>>", "<<<", "<<-"),
    *("&&", "||", ";;", ";&", "|&", "<<", ">>", ">&", "<&", "&>", ">|", "<>"),
    *("|", "&", ";", "(", ")", "<", ">"),
)
_STARTS = {operator[0] for operator in _OPERATORS}
REDIRECTIONS = frozenset({"&>>", "<<<", "<<-", "<<", ">>", ">&", "<&", "&>", ">|", "<>", "<", ">"})


class Expansion(msgspec.Struct, eq=False):
    """`$NAME`, `${NAME:-1}` or `$(command)` in the text of a word."""

    start: int
    end: int
    name: str | None
    """None if the expansion is not a plain variable."""
    is_list: bool = False
    """True if the expansion is `${NAME[@]}`."""

    def moved(self, start: int) -> "Expansion":
        """Return the expansion at another offset."""
        return Expansion(start, start + self.end - self.start, self.name, self.is_list)


class Word(msgspec.Struct, eq=False):
    """One word without its quotes; expansions remain as written."""

    written: Span
    span: Span
    expansions: tuple[Expansion, ...]
    quoted: int
    """Number of characters that were in quotes or after a backslash."""
    elements: "tuple[Word, ...] | None" = None
    """Elements of `NAME=(one two)`."""

    @property
    def text(self) -> str:
        return self.span.text

    @property
    def place(self) -> Place:
        return self.written.place()

    def after(self, start: int) -> "Word":
        """Return the word without its first `start` characters, at the same place."""
        moved = [item.moved(item.start - start) for item in self.expansions if item.start >= start]
        return Word(self.written, self.span.part(start, len(self.text)), tuple(moved), self.quoted)


class HereDocument(msgspec.Struct, eq=False):
    """Text between `<<END` and `END`."""

    is_quoted: bool
    """True if nothing expands in the text."""
    body: Span | None = None


class Token(msgspec.Struct, eq=False):
    """A word, an operator, the end of a line, or a comment."""

    kind: Literal["word", "operator", "newline", "comment"]
    text: str
    word: Word | None = None
    document: HereDocument | None = None
    """Here-document of `<<`."""
    at: int = 0
    """Offset of a comment in the text."""


def tokens_of(span: Span) -> list[Token]:
    """Return the tokens of a script."""
    return _Lexer(span).run()


def words_of(span: Span) -> list[Word]:
    """Return the words of a text, without operators: a shell splits an unquoted variable like this."""
    return [token.word for token in _Lexer(span).run() if token.word is not None]


class _Lexer:
    def __init__(self, span: Span, *, in_array: bool = False) -> None:
        self.span = span
        self.text = span.text
        self.in_array = in_array
        self.at = 0
        self.tokens: list[Token] = []
        self.pending: list[tuple[HereDocument, str, bool]] = []
        self.left = _FAILED_SCANS

    def _closing(self, at: int, opening: str, closing: str) -> int:
        """Return the offset after the bracket that closes the bracket at `at`; -1 if it stays open."""
        if self.left <= 0:
            return -1
        end = _closing(self.text, at, opening, closing)
        if end < 0:
            self.left -= len(self.text) - at
        return end

    def run(self) -> list[Token]:
        text = self.text
        while self.at < len(text):
            character = text[self.at]
            if character in " \t\r\f\v":
                self.at += 1
            elif character == "\\" and text[self.at + 1 : self.at + 2] in ("\n", "\r"):
                self.at = min(text.find("\n", self.at) + 1 or len(text), len(text))
            elif character == "\n":
                self.at += 1
                self.tokens.append(Token("newline", "\n"))
                self._here_documents()
            elif character == "#":
                end = self._line_end()
                self.tokens.append(Token("comment", text[self.at : end], at=self.at))
                self.at = end
            elif not self._operator():
                self.tokens.append(Token("word", "", self._word()))
        return self.tokens

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _operator(self) -> bool:
        text, at = self.text, self.at
        if text[at] not in _STARTS or text.startswith(("<(", ">("), at):
            return False
        if text.startswith("((", at):  # arithmetic, or a subshell in a subshell
            end = self._closing(at, "(", ")")
            if end > at and text[end - 2 : end] == "))":
                return False  # arithmetic is read as a word, because no rule needs its parts
        operator = next(candidate for candidate in _OPERATORS if text.startswith(candidate, at))
        if operator in REDIRECTIONS and self.tokens and self._descriptor():
            self.tokens.pop()
        self.at += len(operator)
        self.tokens.append(Token("operator", operator))
        if operator in ("<<", "<<-"):
            self._here_start(strip=operator == "<<-")
        return True

    def _descriptor(self) -> bool:
        """Return whether the last word is the `2` of `2>`."""
        word = self.tokens[-1].word
        touches = self.text[self.at - 1 : self.at].isdigit()
        return word is not None and touches and word.text.isdigit() and len(word.text) < 3

    def _here_start(self, *, strip: bool) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.at >= len(self.text) or self.text[self.at] in "\n;&|<>()":
            return
        word = self._word()
        document = HereDocument(is_quoted=word.quoted > 0)
        self.tokens[-1].document = document
        self.pending.append((document, word.text, strip))

    def _here_documents(self) -> None:
        for document, end_word, strip in self.pending:
            pieces: list[str] = []
            offsets: list[int] = []
            while self.at < len(self.text):
                end = self._line_end()
                line = self.text[self.at : end]
                skip = len(line) - len(line.lstrip("\t")) if strip else 0
                start, self.at = self.at + skip, min(end + 1, len(self.text))
                if line[skip:].rstrip("\r") == end_word:
                    break
                pieces.append(self.text[start : self.at])
                offsets += self.span.offsets[start : self.at]
            document.body = Span("".join(pieces), offsets, self.span.lines)
        self.pending = []

    def _word(self) -> Word:
        builder = _Builder(self.span)
        begin, text = self.at, self.text
        elements = None
        while self.at < len(text):
            character = text[self.at]
            if character in " \t\r\n\f\v|&;)" or (character == "(" and not self._is_word_paren(begin)):
                if (
                    character == "("
                    and text[self.at - 1 : self.at] == "="
                    and self.at > begin
                    and not self.in_array
                ):
                    elements = self._elements()
                    continue
                break
            if character in "<>" and text[self.at + 1 : self.at + 2] != "(" and text[self.at] in _STARTS:
                break
            self._piece(builder, quoted=False)
        written, expansions = self.span.part(begin, self.at), tuple(builder.expansions)
        return Word(written, builder.span(), expansions, builder.quoted, elements)

    def _is_word_paren(self, begin: int) -> bool:
        return self.at == begin and self.text.startswith("((", begin)

    def _elements(self) -> tuple[Word, ...]:
        end = self._closing(self.at, "(", ")")
        stop = end if end > self.at else len(self.text)
        inner = self.span.part(self.at + 1, stop - 1 if end > self.at else stop)
        self.at = stop
        return tuple(token.word for token in _Lexer(inner, in_array=True).run() if token.word is not None)

    def _piece(self, builder: "_Builder", *, quoted: bool) -> None:
        """Take one character, quotation or expansion."""
        text, at = self.text, self.at
        character = text[at]
        if character == "\\" and not quoted:
            if text[at + 1 : at + 2] == "\n":
                self.at += 2
                return
            builder.take(at + 1, at + 2, quoted=True)
            self.at += 2
        elif character == "'" and not quoted:
            self._single(builder)
        elif character == '"' and not quoted:
            self._double(builder)
        elif character == "$" or text.startswith("{{", at):
            self._expansion(builder, quoted=quoted)
        elif character == "`":
            end = text.find("`", at + 1) + 1 or at + 1
            builder.expand(at, end, None, quoted=quoted)
            self.at = end
        elif not quoted and (text.startswith("((", at) or text.startswith(("<(", ">("), at)):
            end = self._closing(at + (character != "("), "(", ")")
            self.at = max(end, at + 2)
            builder.expand(at, self.at, None, quoted=False)
        else:
            builder.take(at, at + 1, quoted=quoted)
            self.at += 1

    def _single(self, builder: "_Builder") -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:  # an unclosed quote is read as an apostrophe, so that the rest of the script is read
            builder.take(self.at, self.at + 1, quoted=True)
            self.at += 1
            return
        builder.take(self.at + 1, end, quoted=True)
        builder.quoted += end == self.at + 1
        self.at = end + 1

    def _double(self, builder: "_Builder") -> None:
        end = _double_end(self.text, self.at) if self.left > 0 else -1
        if end < 0:
            self.left -= len(self.text) - self.at
            builder.take(self.at, self.at + 1, quoted=True)
            self.at += 1
            return
        self.at += 1
        builder.quoted += self.at == end
        while self.at < end:
            if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in (
                '"',
                "$",
                "`",
                "\\",
                "\n",
            ):
                if self.text[self.at + 1] != "\n":
                    builder.take(self.at + 1, self.at + 2, quoted=True)
                self.at += 2
            else:
                self._piece(builder, quoted=True)
        self.at = end + 1

    def _expansion(self, builder: "_Builder", *, quoted: bool) -> None:
        text, at = self.text, self.at
        if text.startswith("{{", at):  # a template is an expansion of unknown value
            end = text.find("}}", at, at + _LONGEST_TEMPLATE) + 2
            self.at = end if end > 1 else at + 2
            builder.expand(at, self.at, None, quoted=quoted)
            return
        follow = text[at + 1 : at + 2]
        if follow == "'" and not quoted:  # $'text'
            self.at += 1
            self._single(builder)
            return
        if follow in ("(", "{"):
            end = self._closing(at + 1, follow, ")" if follow == "(" else "}")
            self.at = end if end > at + 1 else at + 2
            braced = _BRACED.fullmatch(text, at, self.at)
            name = braced[1] if braced else None
            builder.expand(
                at,
                self.at,
                name,
                quoted=quoted,
                is_list=bool(braced and braced[2]),
            )
            return
        name_match = _NAME.match(text, at + 1)
        if name_match:
            self.at = name_match.end()
            builder.expand(at, self.at, name_match[0], quoted=quoted)
        elif follow and follow in "0123456789@*#?-$!_":  # parameters whose values are known only in the run
            self.at += 2
            builder.expand(at, self.at, None, quoted=quoted)
        else:
            builder.take(at, at + 1, quoted=quoted)
            self.at += 1


class _Builder:
    """Content of a word, collected piece by piece."""

    def __init__(self, source: Span) -> None:
        self.source = source
        self.pieces: list[str] = []
        self.offsets: list[int] = []
        self.expansions: list[Expansion] = []
        self.quoted = 0

    def take(self, start: int, end: int, *, quoted: bool) -> None:
        self.pieces.append(self.source.text[start:end])
        self.offsets += self.source.offsets[start:end]
        self.quoted += (end - start) * quoted

    def expand(
        self,
        start: int,
        end: int,
        name: str | None,
        *,
        quoted: bool,
        is_list: bool = False,
    ) -> None:
        begin = len(self.offsets)
        self.take(start, end, quoted=quoted)
        self.expansions.append(Expansion(begin, len(self.offsets), name, is_list))

    def span(self) -> Span:
        return Span("".join(self.pieces), self.offsets, self.source.lines)


def _closing(text: str, at: int, opening: str, closing: str) -> int:
    """Return the offset after the bracket that closes the bracket at `at`; -1 if it stays open.

    Brackets in quotes do not count.
    """
    depth = 0
    has_pairs = True
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif character == "'":
            end = text.find("'", at + 1)
            at = end if end >= 0 else at
        elif character == '"' and has_pairs:
            end = _double_end(text, at)
            has_pairs = end >= 0
            at = max(end, at)
        elif character == "#" and opening == "(" and text[at - 1] in " \t\n":
            end = text.find("\n", at)
            at = end if end >= 0 else at
        elif character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return -1


def _double_end(text: str, at: int) -> int:
    """Return the offset of the quote that closes the double quote at `at`; -1 if it stays open.

    Quotes inside of `$( )` and `${ }` do not count.
    """
    openings = "({" if len(text) <= _LONGEST_NESTED else "("  # nested quotes take quadratic time
    at += 1
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif character == '"':
            return at
        elif character == "$" and (brackets := text[at + 1 : at + 2]) and brackets in openings:
            closing = ")" if brackets == "(" else "}"
            depth = 1
            begin = at
            at += 2
            stop = len(text) if brackets == "(" else min(len(text), at + _LONGEST_TEMPLATE)
            while at < stop and depth:
                depth += {brackets: 1, closing: -1}.get(text[at], 0)
                at += 1 + (text[at] == "\\")
            if depth and brackets == "{":
                at, openings = begin + 2, "("  # an unclosed `${` does not hide the quote
            continue
        at += 1
    return -1
