"""Arguments of an imported program: placeholders for decisions, and arguments that stay as written."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from recipes.launch.imports.adopted import OPTIONS, Statement
from recipes.launch.imports.chains import escaped
from recipes.launch.imports.layout_of_launch import Batch
from recipes.launch.imports.resolving import Settings
from recipes.launch.placeholders import PLACEHOLDERS
from recipes.launch.recipe import Command, Recipe
from recipes.launch.recipe import settings as placeholder_values

_BATCH_NAME = re.compile(
    r"(?:train(?:ing)?_)?(?:(?:mini|local|total)_?)?(?:batch(?:_?size)?|bsz?)(?:_per_(?:device|gpu|rank))?"
)
"""Names of options for a batch, which may be the micro-batch, the batch of a rank, or the global batch."""


class BatchOptions(NamedTuple):
    """The options of a user's program that name a batch without stating which batch."""

    identified: tuple[Statement, ...] = ()
    """Options whose value is that of one batch only."""
    notes: tuple[str, ...] = ()
    """A sentence for each option that is not identified."""


def batch_options(unnamed: Sequence[Statement], batch: Batch) -> BatchOptions:
    """Return which batch the options of a user's program state, as far as their values show it.

    `unnamed` are the options whose names no table explains. An option is identified only if its value differs
    from the other batches, and if no other option fits the same batch.
    """
    micro, accum, total = batch
    if not (micro and accum and total):
        return BatchOptions()
    named = [each for each in unnamed if _BATCH_NAME.fullmatch(each.name)]
    sizes = {"micro_batch": micro, "the batch of a rank": micro * accum, "global_batch": total}
    meanings = [[name for name, size in sizes.items() if each.value == str(size)] for each in named]
    identified, notes = [], []
    for each, names in zip(named, meanings, strict=True):
        if len(names) == 1 and names[0] in PLACEHOLDERS and meanings.count(names) == 1:
            identified.append(msgspec.structs.replace(each, setting=names[0]))
        else:
            stated = f"can be {' or '.join(names)}" if names else "is no batch of the recipe"
            shared = ", and another option has the same value" if names and meanings.count(names) > 1 else ""
            notes.append(
                f"{each.written} ({each.where}) stays as it is written, because {each.value} {stated}{shared}"
                ": a change of the recipe's batch does not reach the program"
            )
    return BatchOptions(tuple(identified), tuple(notes))


def with_placeholders(recipe: Recipe, settings: Settings) -> Command:
    """Return the command with placeholders for the numbers that the recipe states as fields.

    A later change of the recipe then reaches the program. A number, including one that the script computes,
    is replaced if it equals the field's value, or if the user gave another value as an option. Words are not
    replaced, because they differ between programs.
    """
    values = placeholder_values(recipe)
    decided = [old for old, new in settings.replaced if new.file == OPTIONS]
    by_written = {
        escaped(each.written): each
        for each in (*settings.statements, *decided)
        if each.setting in PLACEHOLDERS
    }
    arguments = list(recipe.command.arguments)
    for at, argument in enumerate(arguments):
        name, sign, value = argument.partition("=")
        pair = f"{arguments[at - 1]} {argument}" if at else ""
        each = by_written.get(argument) if sign else by_written.get(pair)
        text = value if sign else argument
        if each is None or (_number(text) is None and "$" not in text):
            continue
        if each in decided or _number(each.value) == _number(values[each.setting]) is not None:
            arguments[at] = f"{name}={{{each.setting}}}" if sign else f"{{{each.setting}}}"
    return msgspec.structs.replace(recipe.command, arguments=tuple(arguments))


def filled(command: Command, values: Mapping[str, str]) -> Command:
    """Return the command with arguments replaced by `values`, whose keys are the texts of the files."""
    texts = {escaped(text): value for text, value in values.items()}
    arguments = tuple(texts.get(argument, argument) for argument in command.arguments)
    return msgspec.structs.replace(command, arguments=arguments)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def overruled(command: Command, settings: Settings) -> tuple[str, ...]:
    """Return a sentence for each argument that still contradicts an option of the user."""
    words = f" {' '.join(command.arguments)} "
    return tuple(
        f"{old.written} ({old.where}) stays as it is written, although {new.setting} {new.value} was given: "
        "change it in command.arguments of the recipe"
        for old, new in settings.replaced
        if new.file == OPTIONS and f" {old.written} " in words
    )
