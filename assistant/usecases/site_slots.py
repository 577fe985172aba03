"""Fill the site's slots of launch files from the user's site file and from the team's shared site file."""

import os
from pathlib import Path

from assistant.storage import read_bytes
from probes.base.errors import InputError, UsageError
from probes.base.toml_text import parse_toml
from recipes.launch.recipe import Recipe
from recipes.launch.slots import require_slot, with_slots
from recipes.launch.slots_in_use import require_used

TEAM_VARIABLE = "RIGTUNE_SITE"
"""Variable that names a team's shared site file."""


def filled(recipe: Recipe, given: tuple[str, ...], launchers: tuple[str, ...]) -> Recipe:
    """Return the recipe with the site's values of slots, then those of `given`, each as `NAME=VALUE`.

    A value of the recipe has precedence over the user's site file, which overrides the team's. Raises
    UsageError for a wrong slot and for a given slot that none of `launchers` uses, and InputError for a site
    file that cannot be read or has other content. A site file may have unused slots, because it serves all
    launchers.
    """
    site = {**_slots_of(_team_file()), **_slots_of(_own_file())}
    recipe = with_slots(recipe, {**site, **recipe.slots}, f"recipe {recipe.name[:60]!r}")
    stated = dict(map(_pair, given))
    recipe = with_slots(recipe, stated, "--slot")
    require_used(recipe, stated, launchers)
    return recipe


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(
            f"--slot {text[:60]!r} has no value", "write --slot NAME=VALUE; `rigtune list slots`"
        )
    return name.strip(), value


def _own_file() -> Path | None:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    path = Path(folder) / "rigtune" / "site.toml"
    return path if path.is_file() else None


def _team_file() -> Path | None:
    named = os.environ.get(TEAM_VARIABLE)
    return Path(named) if named else None


def _slots_of(path: Path | None) -> dict[str, str]:
    """Return the table `slots` of a site file. Raises InputError."""
    if path is None:
        return {}
    values = parse_toml(read_bytes(path).decode("utf-8", "surrogateescape"), str(path))
    others = [name for name in values if name != "slots"]
    slots = values.get("slots", {})
    if others or not isinstance(slots, dict):
        wrong = others[0] if others else "slots"
        raise InputError(
            f"{path}: {wrong[:60]!r} is not a table of slots", 'write [slots] and NAME = "VALUE"'
        )
    for name, value in slots.items():
        if not isinstance(value, str):
            raise InputError(f"{path}: slots.{name[:60]} is not text", f'write {name[:60]} = "{value}"')
        try:
            require_slot(name, value, str(path))
        except UsageError as error:
            raise InputError(error.message, error.hint) from None
    return slots
