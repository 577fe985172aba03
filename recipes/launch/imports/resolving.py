"""The choice of one value for each setting of an imported launch, and the reading of numbers and words."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from probes.base.errors import InputError
from recipes.launch.imports.adopted import IMPORT_OPTIONS, OPTIONS, Assumed, Statement

Number = TypeVar("Number", int, float)
_OVERRIDDEN = ("accelerate", "torchtitan", "axolotl", "hf-trainer")
"""Owners of configuration files; the command line of the same launch replaces values of such a file."""
_FIRST_WINS = ("name",)


class Settled(NamedTuple):
    """The statements that apply, and those that others replace."""

    statements: tuple[Statement, ...]
    replaced: tuple[tuple[Statement, Statement], ...]
    """Statements, each with the one that replaces it or that states the same value."""
    decided: frozenset[str] = frozenset()
    """Settings that the user gave as options."""


def settle(statements: Sequence[Statement], options: Sequence[Statement]) -> Settled:
    """Return one statement for each setting; options of the user have precedence over all files.

    Raises InputError if two files state different values and neither has precedence.
    """
    chosen: dict[str, Statement] = {each.setting: each for each in options}
    decided = frozenset(chosen)
    replaced: list[tuple[Statement, Statement]] = []
    for each in _with_lists(statements):
        held = chosen.get(each.setting)
        if held is None:
            chosen[each.setting] = each
        elif _same(held.value, each.value) and held.file == OPTIONS:
            chosen[each.setting] = each  # the same value, with a place in a file
        elif _same(held.value, each.value):
            replaced += [] if held.written == each.written else [(each, held)]
        else:
            winner = held if each.setting in decided else _winner(held, each)
            loser = each if winner is held else held
            chosen[each.setting] = winner
            replaced.append((loser, winner))
    return Settled(tuple(chosen.values()), tuple(replaced), decided)


def _with_lists(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements, with all hosts of a file joined into one statement."""
    joined: dict[str, Statement] = {}
    for each in statements:
        if each.setting == "hosts":
            held = joined.get(each.file)
            value = each.value if held is None else f"{held.value},{each.value}"
            joined[each.file] = msgspec.structs.replace(held or each, value=value)
    return [*(each for each in statements if each.setting != "hosts"), *joined.values()]


def _same(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return first.strip() == second.strip()


def _winner(held: Statement, other: Statement) -> Statement:
    """Return the statement that applies. Raises InputError if the files contradict each other."""
    if held.setting in _FIRST_WINS:
        return held
    if (held.file, held.owner) == (other.file, other.owner):
        # an option of srun applies to the step, a request of sbatch to the job; else the last option applies
        is_request = [each.written.startswith("#") for each in (held, other)]
        return held if is_request == [False, True] else other
    is_file = [each.owner in _OVERRIDDEN and each.written.partition(":")[1] == ":" for each in (held, other)]
    if is_file[0] != is_file[1]:
        return other if is_file[0] else held
    option = IMPORT_OPTIONS.get(held.setting)
    raise InputError(
        f"the files contradict each other about {held.setting}: {held.value} ({held.where}: {held.written}) "
        f"and {other.value} ({other.where}: {other.written})",
        "remove the one that is wrong" + (f", or decide with {option} of `rigtune import`" if option else ""),
    )


class Settings:
    """The settled settings as numbers and words."""

    def __init__(self, settled: Settled) -> None:
        self.statements = settled.statements
        self.replaced, self.decided = settled.replaced, settled.decided
        self._by_name = {each.setting: each for each in settled.statements}
        self.assumed: list[Assumed] = []
        self.unread: list[Statement] = []
        """Statements whose value cannot be read as the value of a recipe's field."""

    def statement(self, setting: str) -> Statement | None:
        return self._by_name.get(setting)

    def add(self, statement: Statement) -> None:
        """Use a statement of a file for its setting."""
        self._by_name[statement.setting] = statement
        self.statements = (
            *(each for each in self.statements if each.setting != statement.setting),
            statement,
        )

    def text(self, setting: str) -> str | None:
        """Return the value as text; None if it is unknown."""
        each = self._by_name.get(setting)
        return None if each is None else each.value

    def word(self, setting: str, allowed: Iterable[str]) -> str | None:
        """Return the value if it is one of the allowed words; any other value is added to `unread`."""
        each = self._by_name.get(setting)
        if each is None:
            return None
        plain = each.value.lower().replace("_", "-")
        word = next((word for word in allowed if word in (each.value, plain)), None)
        if word is None:
            self._cannot(each)
        return word

    def whole(self, setting: str) -> int | None:
        """Return the value as a positive whole number; None if there is none.

        Any other value is added to `unread`.
        """
        return self._number(setting, int, lambda value: value > 0)

    def decimal(self, setting: str) -> float | None:
        """Return the value as a number of at least 0; None if there is none.

        Any other value is added to `unread`.
        """
        return self._number(setting, float, lambda value: 0.0 <= value < 1e12)

    def count(self, setting: str) -> int | None:
        """Return the value as a whole number of at least 0; None if there is none.

        Any other value is added to `unread`.
        """
        return self._number(setting, int, lambda value: value >= 0)

    def assume(self, setting: str, value: object, because: str) -> None:
        """Note a default that the recipe states although no file does."""
        self.assumed.append(Assumed(setting=setting, value=str(value), because=because))

    def use_default(self, setting: str, value: str, program: str, because: str) -> None:
        """Use the program's own default of a setting that no file states."""
        self._by_name[setting] = Statement(
            setting=setting, value=value, file=program, line=0, written="", owner=program
        )
        self.assume(setting, value, because)

    def _number(
        self, setting: str, read: Callable[[str], Number], is_valid: Callable[[Number], bool]
    ) -> Number | None:
        each = self._by_name.get(setting)
        if each is None:
            return None
        text = each.value.strip().replace("_", "")
        try:
            value = read(text)
        except ValueError:
            try:
                value = read(str(int(float(text)))) if float(text).is_integer() else read("")
            except (ValueError, OverflowError):
                self._cannot(each)
                return None
        if not is_valid(value):
            self._cannot(each)
            return None
        return value

    def _cannot(self, statement: Statement) -> None:
        if statement not in self.unread:
            self.unread.append(statement)
