"""The slots that reach the files of a launcher and a program; a slot that changes no file has no effect."""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from probes.base.errors import UsageError
from recipes.launch.launch_files import launch_files
from recipes.launch.plan_json import PLAN_FILE
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import Recipe
from recipes.launch.slots import load_slots
from recipes.planning.programs import OWN, program_named


def require_used(recipe: Recipe, names: Collection[str], launchers: tuple[str, ...]) -> None:
    """Raise UsageError for the first named slot of the recipe that no file of these launchers uses.

    The error names the slots that they use. A recipe that a launcher cannot start passes, because its export
    fails with an error of its own.
    """
    used = _used(recipe, names, launchers) if names else ()
    ignored = [name for name in names if name not in used]
    if ignored:
        starters = " and ".join(launchers)
        raise UsageError(
            f"--slot {ignored[0]}: {starters} with the program {recipe.program} would ignore it",
            "leave it out, or name another launcher; slots in use here: "
            f"{', '.join(_used(recipe, load_slots(), launchers))}",
        )


def _used(recipe: Recipe, names: Collection[str], launchers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of slots whose values reach a file of these launchers."""
    present = {launcher: _files(recipe, launcher, recipe.slots) for launcher in launchers}
    return tuple(
        name
        for name in names
        if any(
            not texts or any(_files(recipe, launcher, slots) != texts for slots in _changed(recipe, name))
            for launcher, texts in present.items()
        )
    )


def _changed(recipe: Recipe, name: str) -> Iterator[dict[str, str]]:
    """Yield the slots of the recipe with another value of one slot, and without the value."""
    value = recipe.slots.get(name)
    # A longer value differs from every default, such as 1000:1000 for the user of a container.
    yield {**recipe.slots, name: f"{value or load_slots()[name].example}0"}
    if value is not None:
        yield {other: text for other, text in recipe.slots.items() if other != name}


def _files(recipe: Recipe, launcher: str, slots: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that depend on slots, by file name; none for a recipe that cannot be exported.

    plan.json counts only if the program is a user's script, which can read the file.
    """
    reads_plan = recipe.program == OWN or program_named(recipe.program).needs_script
    left_out = ("recipe.toml",) if reads_plan else ("recipe.toml", PLAN_FILE)
    try:
        require_runnable(recipe)
        files = launch_files(msgspec.structs.replace(recipe, slots=dict(slots)), launcher)
    except UsageError:
        return {}
    return {file.path: file.text for file in files if file.path not in left_out}
