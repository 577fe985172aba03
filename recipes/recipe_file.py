"""recipe.toml: the recipe as a file that people read, edit and keep under version control."""

from __future__ import annotations

import difflib
import re
import sys
from typing import Any, get_args, get_type_hints

import msgspec
import tomli_w

from probes.errors import InputError
from recipes.recipe import SCHEMA_VERSION, Recipe
from recipes.validation import faults

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = """\
# A training recipe of rigtune: how one job runs on one machine or cluster, and why.
# Edit it, then write the launch files again with `rigtune export`, or start it with `rigtune run`.
# The product of micro_batch, grad_accum, nodes and ranks_per_node must stay global_batch.

"""

_PLACE = re.compile(r" - at `\$\.?(?P<place>[^`]*)`$")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as TOML, fields in the order of the record, unknown predictions left out."""
    return _HEADER + tomli_w.dumps(_without_none(msgspec.to_builtins(recipe)))


def _without_none(value: Any) -> Any:
    """TOML has no null."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(part) for part in value]
    return value


def load_recipe(text: str, name: str) -> Recipe:
    """The recipe in `text`; `name` is the file's name for messages.

    Raises InputError that says which field of which file is wrong and what to do.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{name} is not valid TOML: {error}", "strings need quotes, each field its own line") from error
    version = document.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        problem = f"{name}: schema_version is {version}, this rigtune reads up to {SCHEMA_VERSION}"
        raise InputError(problem, "the file comes from a newer rigtune: update this one")
    try:
        recipe = msgspec.convert(document, Recipe)
    except msgspec.ValidationError as error:
        raise _explained(str(error), name) from error
    for fault in faults(recipe):
        raise InputError(f"{name}: {fault.place}: {fault.problem}", fault.remedy)
    return recipe


def _explained(words: str, name: str) -> InputError:
    """msgspec's complaint with the file, the place and advice."""
    match = _PLACE.search(words)
    place = match.group("place") if match else ""
    problem = words[: match.start()] if match else words
    unknown = _UNKNOWN_FIELD.fullmatch(problem)
    if unknown is None:
        missing = "missing required field" in problem
        advice = "`rigtune plan -o recipe.toml` writes a whole recipe" if missing else "give the field such a value"
        return InputError(f"{name}: {place + ': ' if place else ''}{problem}", advice)
    field, fields = unknown.group("field"), _fields_at(place)
    near = difflib.get_close_matches(field, fields, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else f"fields here: {', '.join(fields)}"
    return InputError(f"{name}: {place + '.' if place else ''}{field[:60]}: there is no such field", advice)


def _fields_at(place: str) -> tuple[str, ...]:
    """The fields of the table at a path such as `environment[0]`."""
    table: Any = Recipe
    for part in re.findall(r"[a-z_]+", place):
        kind = get_type_hints(table)[part]
        table = next((inner for inner in get_args(kind) if inner is not Ellipsis), kind)
    return tuple(table.__struct_fields__)
