"""Settings without which a program cannot start: its model and its data."""

from collections.abc import Collection, Mapping

from probes.base.errors import UsageError
from recipes.launch.recipe import Recipe
from recipes.planning.programs import program_named


def require_places(recipe: Recipe, places: Mapping[str, str], given: Collection[str], command: str) -> None:
    """Raise UsageError for a setting that is missing among those given.

    `places` has the slot of each setting, by its name in the user's own command (`--model`);
    `command` is the beginning of such a command.
    """
    for setting, slot in places.items():
        if setting.lstrip("-") not in given:
            raise UsageError(
                f"{program_named(recipe.program).title} needs {setting}, and the recipe has no value for it",
                f"give --slot {slot}=VALUE to `rigtune export`, or your command: "
                f"rigtune plan MODEL --program {recipe.program} -o recipe.toml -- {command} {setting}",
            )
