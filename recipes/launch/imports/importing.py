"""Import of the files of one launch as settings and a recipe."""

from collections.abc import Iterator, Sequence

import msgspec

from probes.base.errors import InputError, UsageError
from recipes.launch.imports.adopted import OPTIONS, Imported, Statement
from recipes.launch.imports.assembling import imported_from
from recipes.launch.imports.collecting import collect
from recipes.launch.imports.layout_of_launch import SHARDING_WORDS
from recipes.launch.imports.model_of_launch import FindModel
from recipes.launch.imports.resolving import settle
from recipes.launch.imports.site_commands import slots_in
from recipes.launch.imports.training_files import LaunchFile
from recipes.launch.launch_files import program_files
from recipes.launch.program_table import WRITTEN
from recipes.launch.recipe import Environment, Recipe
from recipes.launch.recipe_file import load_recipe


def import_launch(files: Sequence[LaunchFile], given: dict[str, str], find_model: FindModel) -> Imported:
    """Return what the files of one launch state.

    `given` has the options of `IMPORT_OPTIONS` that the user gave, by name; they have precedence over the
    files. Raises InputError for a file with an error of syntax, and if the files contradict each other.
    """
    for file in files:
        for fault in file.faults:
            raise InputError(f"{file.name}: {fault}", "correct the file; `rigtune lint` shows the place")
    options = [
        Statement(
            setting="sharding" if name == "strategy" else name,
            value=SHARDING_WORDS[value] if name == "strategy" else value,
            file=OPTIONS,
            line=0,
            written=f"--{name.replace('_', '-')} {value}",
            owner="rigtune",
        )
        for name, value in given.items()
    ]
    collected = collect(files)
    if any(each.setting == "narrow" for each in collected.statements):  # else it would replace the option
        formats = [each for each in options if each.setting == "precision"]
        options += [msgspec.structs.replace(each, setting="narrow") for each in formats]
    settled = settle(collected.statements, options)
    imported = imported_from(collected, settled, tuple(file.name for file in files), find_model)
    recipes = [file for file in files if file.owner == "recipe"]
    return on_recipe(imported, load_recipe(recipes[0].text, recipes[0].name)) if recipes else imported


def on_recipe(imported: Imported, recipe: Recipe) -> Imported:
    """Return the import of a recipe together with the scripts that were exported from it.

    The scripts may set other variables than the recipe; settings that only the recipe states stay as they
    are, and a variable that the program sets itself is not added to the recipe.
    """
    variables = {each.name: each for each in imported.environment}
    kept = {each.name: each for each in recipe.environment}
    stated = {each.name: each.value for each in (*_program_variables(recipe), *recipe.environment)}
    changed = {name: each for name, each in variables.items() if stated.get(name) != each.value}
    return msgspec.structs.replace(
        imported,
        program=recipe.program,
        command=recipe.command,
        environment=tuple((kept | changed).values()),
        assumed=(),
        missing=(),
        recipe=msgspec.structs.replace(
            recipe,
            environment=tuple((kept | changed).values()),
            slots=recipe.slots | slots_in((each.setting, each.value) for each in imported.settings),
            kept=(*recipe.kept, *(each for each in imported.kept if each not in recipe.kept)),
        ),
    )


def _program_variables(recipe: Recipe) -> Iterator[Environment]:
    """Yield the variables that an export adds for the program; none if the program cannot run the recipe."""
    if recipe.program not in WRITTEN:
        return
    try:
        forms = program_files(recipe).forms
    except UsageError:
        return
    for form in forms:
        yield from (*form.environment, *form.rank_environment)
