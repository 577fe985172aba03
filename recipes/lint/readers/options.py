"""Options of a command line, read with the grammar of its program."""

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from recipes.lint.document import Argument, Place
from recipes.lint.readers.grammars import Grammar
from recipes.lint.readers.words import Word

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_NEGATIVE = re.compile(r"-\d")


class Argued(msgspec.Struct, eq=False):
    """An argument; if the argument is from a shell script, also its word in the script."""

    text: str
    place: Place
    is_literal: bool = True
    word: Word | None = None

    def without(self, count: int) -> "Argued":
        """Return the argument without its first characters."""
        word = None if self.word is None else self.word.after(count)
        return Argued(self.text[count:], self.place, is_literal=self.is_literal, word=word)

    def argument(self) -> Argument:
        return Argument(text=self.text, is_literal=self.is_literal, place=self.place)


class Use(NamedTuple):
    """One use of an option on a command line."""

    name: str
    """Long name without dashes and with `-` for `_`."""
    value: str
    """`true` for a switch."""
    begin: int
    """Index of the argument with the option's name."""
    end: int
    """Index after the last argument that belongs to the use."""


class Parsed(msgspec.Struct):
    """Options of a command line, and the start of the inner command."""

    options: dict[str, str] = {}
    uses: list[Use] = []
    """All uses of options in their order, repeated ones too."""
    variables: list[tuple[str, Argued]] = []
    """`NAME=value` from `-x NAME=value`, each with its argument."""
    rest: int | None = None
    """Index of the first word of the inner command."""


def parse_options(arguments: Sequence[Argued], grammar: Grammar, *, starts: bool = True) -> Parsed:
    """Return the options in `arguments`, which do not include the program's own name.

    If `starts` is False, the program starts no inner command, so all arguments are its own.
    """
    parser = _Parser(arguments, grammar, starts=starts)
    parser.run()
    return parser.parsed


class _Parser:
    def __init__(self, arguments: Sequence[Argued], grammar: Grammar, *, starts: bool) -> None:
        self.arguments = arguments
        self.grammar = grammar
        self.starts = starts
        self.parsed = Parsed()
        self.at = 0
        self.begin = 0
        self.has_verb = False

    def run(self) -> None:
        while self.at < len(self.arguments):
            text = self.arguments[self.at].text
            self.begin = self.at
            if text == "--":
                if self.starts:
                    self.parsed.rest = self.at + 1
                return
            if text.startswith("--") or (
                self.grammar.is_long_single and text.startswith("-") and len(text) > 2
            ):
                self._long(text)
            elif text.startswith("-") and len(text) > 1 and not _NEGATIVE.match(text):
                self._letters(text)
            elif text in self.grammar.verbs:
                self.has_verb = True
                self.at += 1
            elif self.starts and self.grammar.rest == "script" and self._holds_options(self.at):
                self.at += 1
            else:
                if self.starts and self.grammar.rest not in ("nothing", "after-dashes"):
                    self.parsed.rest = self.at if self.has_verb or not self.grammar.needs_verb else None
                    return
                self.at += 1

    def _holds_options(self, at: int) -> bool:
        """Return whether the shell variable at this position contains options rather than the script's path.

        The variable contains options if its expansion may be empty (`${A:+...}`), or if an option and later a
        Python script follow.
        """
        text = self.arguments[at].text
        if self.arguments[at].is_literal or not text.startswith("$"):
            return False
        if ":+" in text or "+-" in text:
            return True
        after = self.arguments[at + 1 :]
        return (
            bool(after)
            and after[0].text.startswith("-")
            and any(
                word.text.endswith(".py") and self._is_no_value(before.text)
                for before, word in itertools.pairwise(after)
            )
        )

    def _is_no_value(self, before: str) -> bool:
        """Return whether the word after `before` is not the value of an option."""
        return (
            not before.startswith("-")
            or "=" in before
            or before.lstrip("-").replace("_", "-") in (self.grammar.switches)
        )

    def _long(self, text: str) -> None:
        name, equals, value = text.lstrip("-").partition("=")
        name = name.replace("_", "-")
        name = self.grammar.short.get(name, name) if not text.startswith("--") else self._whole(name)
        self.at += 1
        if equals:
            self._put(name, value, self.arguments[self.at - 1])
        elif name in self.grammar.switches:
            self._put(name, "true", self.arguments[self.at - 1])
        else:
            self._value(name)

    def _whole(self, name: str) -> str:
        """Return the only option that starts with `name`; `name` itself if there is not exactly one."""
        known = self.grammar.abbreviates
        longer = [option for option in known if option.startswith(name)] if name and name not in known else []
        return longer[0] if len(longer) == 1 else name

    def _letters(self, text: str) -> None:
        if text[1:] in self.grammar.switches:
            self.at += 1
            self._put(text[1:], "true", self.arguments[self.at - 1])
            return
        for number, letter in enumerate(text[1:], start=1):
            name = self.grammar.short.get(letter, letter)
            if name in self.grammar.switches:
                self._put(name, "true", self.arguments[self.at])
                continue
            rest = text[number + 1 :].removeprefix("=")
            self.at += 1
            if rest:
                self._put(name, rest, self.arguments[self.at - 1])
            else:
                self._value(name)
            return
        self.at += 1

    def _value(self, name: str) -> None:
        """Read the value from the next word, unless the next word is an option."""
        follow = self.arguments[self.at].text if self.at < len(self.arguments) else ""
        if not follow or (follow.startswith("-") and not _NEGATIVE.match(follow)):
            self._put(name, "true", self.arguments[self.at - 1])
            return
        if name in self.grammar.pairs and self.at + 1 < len(self.arguments):
            second = self.arguments[self.at + 1]
            self.at += 2
            self._put(name, f"{follow}={second.text}", second)
            return
        self.at += 1
        self._put(name, follow, self.arguments[self.at - 1])

    def _put(self, name: str, value: str, argument: Argued) -> None:
        options = self.parsed.options
        self.parsed.uses.append(Use(name, value, self.begin, max(self.at, self.begin + 1)))
        if name in self.grammar.variables:
            self.parsed.variables += [(assignment, argument) for assignment in _assignments(value)]
        options[name] = (
            f"{options[name]}\n{value}" if name in self.grammar.lists and name in options else value
        )


def _assignments(value: str) -> list[str]:
    """Return the parts of `A=1,B=2`, which apptainer and torchx accept.

    A comma without a name after it belongs to the value.
    """
    return re.split(r",(?=[A-Za-z_]\w*=)", value) if ASSIGNMENT.match(value) else []
