"""The merge of the user's arguments with those of the plan, which take precedence."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

_OPTION = re.compile(r"--.|-(?!\.?\d).")
"""Start of an option: dashes, but no negative number."""

_LISTS = frozenset({"target_modules"})
"""Options of ms-swift that have several values and that the plan may decide."""

Option = tuple[str, ...]
"""The name of an option, then its values; or one word that belongs to no option."""


class Arguments(NamedTuple):
    """The user's arguments without decisions of the plan."""

    kept: tuple[str, ...]
    replaced: tuple[str, ...]
    """Options with their values that the plan's settings replace."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the options that were kept, with underscores."""
        return frozenset(_name(word) for word in self.kept if word.startswith("--"))

    @property
    def notes(self) -> tuple[str, ...]:
        """A remark for every argument that was replaced."""
        return tuple(f"The plan replaces your argument {argument}" for argument in self.replaced)


class Merged(NamedTuple):
    """Arguments for the program, and notes on arguments of the user that were replaced."""

    words: tuple[str, ...]
    """The user's arguments that no decision of the plan replaces, then the defaults, then the plan."""
    notes: tuple[str, ...]
    """One sentence for each argument that was left out or replaced by another value."""


def without_decisions(arguments: Iterable[str], names: Collection[str]) -> Arguments:
    """Return the user's arguments without the options of these names (with underscores), which the plan
    decides.

    `--learning_rate 1`, `--learning-rate=1` and a switch such as `--bf16` are recognised. An option is
    removed with one value, those in `_LISTS` with all values: a further word may belong to the program.
    """
    kept: list[str] = []
    replaced: list[str] = []
    for words in _groups(arguments):
        name = _name(words[0])
        is_decided = words[0].startswith("--") and name in names
        taken = 0 if not is_decided else len(words) if name in _LISTS else 2
        if is_decided:
            replaced.append(" ".join(words[:taken]))
        kept += words[taken:]
    return Arguments(tuple(kept), tuple(replaced))


def options_of(words: Iterable[str]) -> tuple[Option, ...]:
    """Return the words of a command as options, each with its values; `--name=value` is split."""
    return tuple(
        tuple(group[0].split("=", 1)) if group[0].startswith("--") and len(group) == 1 else tuple(group)
        for group in _groups(words)
    )


def words_of(options: Iterable[Option]) -> tuple[str, ...]:
    """Return the words of options; a value that looks like an option follows `=`, as argparse requires."""
    return tuple(
        word
        for option in options
        for word in (["=".join(option)] if len(option) == 2 and _OPTION.match(option[1]) else option)
    )


def merge(
    theirs: Iterable[Option],
    plan: Collection[Option],
    defaults: Iterable[Option] = (),
    *,
    decided: Collection[str] = (),
) -> Merged:
    """Return one list of arguments in which the plan's decisions replace the user's.

    `decided` names further options that state a decision of the plan, even if the plan leaves them out.
    A default gives way to the user's argument of the same name.
    """
    stated = {option[0]: option for option in plan}
    kept: list[Option] = []
    notes: list[str] = []
    for option in theirs:
        name = option[0]
        if name not in stated and name not in decided:
            kept.append(option)
        elif name in stated and stated[name] != option:
            notes.append(f"Your {_text(option)} is replaced by the plan's {_text(stated[name])}")
        elif name not in stated:
            notes.append(
                f"Your {_text(option)} is left out: the plan decides this, and leaves it at its default"
            )
    own = {option[0] for option in kept}
    added = [option for option in defaults if option[0] not in own and option[0] not in stated]
    return Merged(words_of((*kept, *added, *plan)), tuple(notes))


def _groups(words: Iterable[str]) -> Iterator[list[str]]:
    """Yield each option with the values that follow it, and each other word alone.

    Which options take no value is unknown: a word after a switch counts as its value.
    """
    group: list[str] = []
    takes_values = False
    for word in words:
        is_option = _OPTION.match(word) is not None
        if takes_values and not is_option:
            group.append(word)
            continue
        if group:
            yield group
        group, takes_values = [word], is_option and "=" not in word
    if group:
        yield group


def _name(option: str) -> str:
    return option.removeprefix("--").partition("=")[0].replace("-", "_")


def _text(option: Option) -> str:
    return f"`{' '.join(option)[:80]}`"
