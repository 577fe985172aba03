"""The recipe as a TOML file that people read, edit and keep under version control."""

from __future__ import annotations

from typing import Any

import msgspec
import tomli_w

from probes.base.errors import InputError
from probes.judging.policies.strict_toml import read_strict
from recipes.launch.recipe import SCHEMA_VERSION, Recipe
from recipes.launch.validation import faults

_HEADER = """\
# A training recipe of rigtune: how one job runs on one machine or cluster, and why.
# Edit it, then write the launch files again with `rigtune export`, or start it with `rigtune run`.
# The product of micro_batch, grad_accum, nodes and ranks_per_node must stay global_batch.

"""


def dump_recipe(recipe: Recipe) -> str:
    """Return the recipe as TOML with fields in the order of the record, without unknown predictions."""
    return _HEADER + tomli_w.dumps(_without_none(msgspec.to_builtins(recipe)))


def _without_none(value: Any) -> Any:
    """Return the value without fields that are None, as TOML has no null."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(part) for part in value]
    return value


def load_recipe(text: str, name: str) -> Recipe:
    """Return the recipe in `text`; `name` is the file's name for messages.

    Raises InputError, which names the wrong field of the file and the correction.
    """
    recipe = read_strict(
        text,
        name,
        Recipe,
        schema_version=SCHEMA_VERSION,
        missing="`rigtune plan -o recipe.toml` writes a whole recipe",
    )
    for fault in faults(recipe):
        raise InputError(f"{name}: {fault.place}: {fault.problem}", fault.remedy)
    return recipe
