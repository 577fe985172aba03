"""The source of the user's own program, and whether the program takes any decision of the plan."""

from pathlib import Path

import msgspec

from assistant.storage import read_bytes
from probes.base.errors import InputError
from recipes.launch.recipe import Command, Recipe
from recipes.launch.untold import untold_warning, with_untold_note
from recipes.planning.plan import Plan

_LARGEST_BYTES = 16 * 1024**2


def program_text(command: Command) -> str:
    """Return the source of the command's script or module; empty if it is not here."""
    target = command.target
    path = (
        Path(*target.split(".")).with_suffix(".py") if command.kind == "module" and target else Path(target)
    )
    path = Path(command.working_directory) / path
    if not target or not path.is_file():
        return ""
    try:
        return read_bytes(path, limit_bytes=_LARGEST_BYTES).decode("utf-8", "replace")
    except InputError:
        return ""


def warned_plan(plan: Plan, command: Command) -> Plan:
    """Return the plan, with a warning if the user's program takes none of its decisions, or
    not the decisive ones.
    """
    values = msgspec.structs.asdict(plan.chosen)
    warning = untold_warning(command, plan.chosen.program, values, program_text(command))
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, warning)) if warning else plan


def warned_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe, with the same warning for the program's present arguments and source."""
    return with_untold_note(recipe, program_text(recipe.command))
