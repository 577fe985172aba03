"""The compound commands of a script: branches, loops, patterns of `case`, and functions."""

import re
from collections.abc import Callable

from recipes.lint.readers.scope import Changes, Exported
from recipes.lint.readers.words import Token, Word

_LOOPING = frozenset({"while", "until"})
_OPENING = frozenset({"if", *_LOOPING})
_PASSING = frozenset({"then", "elif", "else", "do", "!", "{", "}", "time", "coproc"})


class _Branches:
    """Open `if` and `case` commands. Each branch starts with the variables from before the command."""

    def __init__(self, exported: Exported) -> None:
        self._exported = exported
        self._open: list[tuple[str, int, Changes]] = []
        """The open commands.

        Each entry has the word that opened the command, the mark of the variables at that point, and the
        changes that its branches made so far.
        """

    def enter(self, word: str) -> None:
        self._open.append((word, self._exported.mark(), {}))

    def turn(self, word: str) -> None:
        """Start another branch of the innermost command."""
        if self._open and self._open[-1][0] == word:
            _, mark, changes = self._open[-1]
            changes.update(self._exported.back_to(mark))

    def leave(self, word: str) -> None:
        """Close the innermost command.

        Any branch may have run, so the changes of all branches apply.
        """
        if self._open and self._open[-1][0] == word:
            self.turn(word)
            self._exported.again(self._open.pop()[2])

    @property
    def are_open(self) -> bool:
        return bool(self._open)


class _Choice:
    """An open `if`; the branch that runs is known if the values in its tests are literal."""

    __slots__ = ("is_dead", "is_decided")

    def __init__(self) -> None:
        self.is_decided = False
        """True if an earlier branch certainly runs."""
        self.is_dead = False
        """True if the current branch certainly does not run."""


class Flow:
    """The position of a script within its compound commands."""

    def __init__(self, exported: Exported, forget: Callable[[str], None]) -> None:
        self._branches = _Branches(exported)
        self._forget = forget
        """Function that is called with the variable of each loop."""
        self._loops = 0
        self._choices: list[_Choice] = []
        self._cases: list[bool] = []
        """A value for each open `case`: True if a pattern comes next."""

    @property
    def is_conditional(self) -> bool:
        return self._loops > 0 or self._branches.are_open

    @property
    def is_at_pattern(self) -> bool:
        """Return whether a pattern of `case` comes next."""
        return bool(self._cases) and self._cases[-1]

    @property
    def is_dead(self) -> bool:
        """Return whether the current branch certainly does not run."""
        return any(choice.is_dead for choice in self._choices)

    @property
    def is_in_loop(self) -> bool:
        return self._loops > 0

    def decide(self, *, runs: bool | None) -> None:
        """Store the result of the current branch's test; None if the result is known only during the run."""
        if self._choices and not self._choices[-1].is_decided:
            self._choices[-1].is_dead = runs is False
            self._choices[-1].is_decided = runs is True

    def end_pattern(self) -> None:
        self._cases[-1] = False

    def end_arm(self) -> None:
        """Handle `;;`, after which the next pattern follows."""
        if self._cases:
            self._cases[-1] = True
            self._branches.turn("case")

    def without_keywords(self, words: list[Word]) -> list[Word]:
        """Return the command without the words that open and close compound commands.

        The result is empty after `for` and `case`.
        """
        at = 0
        while at < len(words) and not words[at].quoted:
            text = words[at].text
            if text in ("for", "select", "case"):
                self._head(text, words[at + 1 :])
                return []
            if text == "function":
                at += 1
            elif text.endswith("()") or not (self._turn(text) or text in _PASSING):
                break
            at += 1
        return words[at:]

    def _head(self, text: str, words: list[Word]) -> None:
        if text == "case":
            self._branches.enter("case")
            self._cases.append(True)
            return
        self._loops += 1
        if words:
            self._forget(words[0].text)

    def _turn(self, text: str) -> bool:
        """Follow a word that opens, continues or closes a compound command; return False for other words."""
        if text == "if":
            self._branches.enter("if")
            self._choices.append(_Choice())
        elif text in ("elif", "else"):
            self._branches.turn("if")
            if self._choices:
                self._choices[-1].is_dead = self._choices[-1].is_decided
        elif text == "fi":
            self._branches.leave("if")
            del self._choices[-1:]
        elif text in _LOOPING:
            self._loops += 1
        elif text == "done":
            self._loops = max(0, self._loops - 1)
        elif text == "esac":
            self._branches.leave("case")
            del self._cases[-1:]
        else:
            return False
        return True


_COMPARED = {"=": True, "==": True, "!=": False}
_NUMBERS = {"-eq", "-ne", "-gt", "-ge", "-lt", "-le"}
_LONGEST_NUMBER = 9


def outcome(test: list[tuple[str, bool]]) -> bool | None:
    """Return the result of `[ a = b ]`; None if the result is known only during the run.

    Each word is a pair: its text, and True if the text is known.
    """
    if len(test) < 3 or (test[0][0], test[-1][0]) not in (("[", "]"), ("[[", "]]")):
        return None
    words = [text for text, _ in test[1:-1]]
    if not all(is_known for _, is_known in test[1:-1]):
        return None
    match words:
        case [("-z" | "-n") as sign, text]:
            return (text == "") == (sign == "-z")
        case [left, sign, right] if sign in _COMPARED:
            is_pattern = test[0][0] == "[[" and any(mark in right for mark in "*?[")
            return None if is_pattern else (left == right) == _COMPARED[sign]
        case [left, sign, right] if sign in _NUMBERS:
            return _compared(left, sign, right)
    return None


def _compared(left: str, sign: str, right: str) -> bool | None:
    if not all(text.isdecimal() and len(text) <= _LONGEST_NUMBER for text in (left, right)):
        return None
    first, second = int(left), int(right)
    results = {
        "-eq": first == second,
        "-ne": first != second,
        "-gt": first > second,
        "-ge": first >= second,
        "-lt": first < second,
        "-le": first <= second,
    }
    return results[sign]


def in_test(words: list[Word]) -> bool:
    """Return whether `[[` is still open."""
    for number, word in enumerate(words):
        if word.text == "[[":
            return not any(later.text == "]]" for later in words[number:])
        if word.text not in _OPENING and word.text not in _PASSING:
            return False
    return False


_NAME = re.compile(r"[A-Za-z_][\w.:-]*")
_BEFORE_COMMANDS = frozenset({"then", "else", "elif", "do", "{", "!", "time", "if", "while", "until"})


class Function:
    """The body of a function, and the changes that a later call makes to the environment."""

    __slots__ = ("body", "changes", "depth", "is_open", "runs_words")

    def __init__(self, body: list[Token], depth: int) -> None:
        self.body = body
        self.depth = depth
        """Number of scripts and functions around this function."""
        self.runs_words = _runs_words(body)
        """True if the body runs `"$@"`, so that the arguments of a call are a command."""
        self.changes: Changes | None = None
        """Changes that a call makes to the environment; None before the first call."""
        self.is_open = False
        """True if the body is being read; a function may call itself."""


def closing_braces(tokens: list[Token]) -> dict[int, int]:
    """Return, for each `{` that opens commands, the index of its `}`; the key is the index of the `{`."""
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
    """Return the name of the function that is defined here, the index of the first token of its body, and the
    index of the closing brace.

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
