"""Places in launch files that the site or the user fills: account, modules, container image, data, ..."""

import functools
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import StrictRecord, is_invisible, quoted
from probes.base.rows import load_rows
from recipes.launch.recipe import Recipe

_FORMS = {
    "name": re.compile(r"[A-Za-z0-9_][\w.,:@+/-]*", re.ASCII),
    "time": re.compile(r"(\d+-)?\d+(:\d+){0,2}", re.ASCII),
}
_LIMIT = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)
_IN_RESOURCES = {"account": "account", "partition": "partition", "time": "time_limit"}
"""Slots whose value is a field of a recipe's resources, which recipes have had since their first version."""


class Slot(StrictRecord, kw_only=True):
    """One place that only the site or the user can fill."""

    id: str
    title: str
    example: str
    form: Literal["name", "time", "path", "text"]


@functools.lru_cache(maxsize=1)
def load_slots() -> dict[str, Slot]:
    """Return all rows of `recipes/data/slots.toml` by id, in the file's order."""
    return {row.id: row for row in load_rows("recipes", "slots", Slot)}


def slot_value(recipe: Recipe, name: str) -> str:
    """Return the value of a slot; empty if nobody filled it."""
    field = _IN_RESOURCES.get(name)
    return recipe.slots.get(name, "") or (getattr(recipe.resources, field) if field else "")


def time_limit_s(recipe: Recipe) -> int | None:
    """Return the time limit of the job in seconds; None if there is none.

    Its forms are those of Slurm: M, M:S, H:M:S, D-H, D-H:M and D-H:M:S (`man sbatch`, --time).
    """
    match = _LIMIT.fullmatch(slot_value(recipe, "time"))
    if match is None:
        return None
    days, first, second, third = match.groups()
    if days is not None or third is not None:
        hours, minutes, seconds = first, second, third
    else:
        hours, minutes, seconds = None, first, second
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)


def with_slots(recipe: Recipe, given: Mapping[str, str], origin: str) -> Recipe:
    """Return the recipe with these values; `origin` names their source in messages.

    Raises UsageError for an unknown slot and for a value that has the wrong form.
    """
    for name, value in given.items():
        require_slot(name, value, origin)
    return msgspec.structs.replace(recipe, slots={**recipe.slots, **given})


def fits_slot(name: str, value: str) -> bool:
    """Return whether there is a slot of this name that can take the value."""
    try:
        require_slot(name, value, "")
    except UsageError:
        return False
    return True


def require_slot(name: str, value: str, origin: str) -> None:
    """Raise UsageError if there is no slot of this name, or if it cannot take the value."""
    rows = load_slots()
    if name not in rows:
        hint = did_you_mean(name, rows, f"slots: {', '.join(rows)}")
        raise UsageError(f"{origin}: there is no slot {quoted(name)}", hint)
    row = rows[name]
    pattern = _FORMS.get(row.form)
    is_wrong = (
        not value.isprintable() or any(map(is_invisible, value)) or not value.strip() or value.startswith("-")
    )
    if is_wrong or (pattern is not None and not pattern.fullmatch(value)):
        raise UsageError(
            f"{origin}: {quoted(value)} cannot be the slot {name} ({row.title[0].lower()}{row.title[1:]})",
            f"write a value such as {row.example!r}",
        )
