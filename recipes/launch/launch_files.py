"""The launch files of a recipe, with which one launcher starts its program."""

from typing import NamedTuple

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import quoted
from recipes.launch.launcher_table import LAUNCHERS, LauncherRow
from recipes.launch.plan_json import plan_file
from recipes.launch.program_files import Processes, ProgramFiles
from recipes.launch.program_table import PROGRAM_WRITERS
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.recipe_file import dump_recipe, require_valid
from recipes.launch.references import referenced
from recipes.launch.script_parts import remarks
from recipes.launch.slots import load_slots, slot_value

_OWN_KINDS = ("reference", "nccl-tests")
"""Kinds of commands that have a fixed program; `recipe.program` has no effect on them."""
_PROCESSES: dict[Processes, str] = {
    "rank": "one process per rank",
    "task": "MPI or Slurm to start one process per rank",
    "node": "one process per node",
    "job": "one process for the whole job",
}


def find_launcher(launcher_id: str) -> LauncherRow:
    """Return the row of a launcher. Raises UsageError for an unknown id, with the nearest id."""
    rows = {row.id: row for row in LAUNCHERS}
    if launcher_id in rows:
        return rows[launcher_id]
    raise UsageError(
        f"there is no launcher {quoted(launcher_id)}",
        did_you_mean(launcher_id, rows, f"launchers: {', '.join(rows)}"),
    )


def program_files(recipe: Recipe) -> ProgramFiles:
    """Return the recipe as the words and files of its program.

    Raises UsageError for a recipe that contradicts itself or that its program cannot run.
    """
    require_valid(recipe)
    rows = {row.id: row for row in PROGRAM_WRITERS}
    files: ProgramFiles = rows[_program_id(recipe)].load().write(recipe)
    return files


def _program_id(recipe: Recipe) -> str:
    return recipe.command.kind if recipe.command.kind in _OWN_KINDS else recipe.program


class Launch(NamedTuple):
    """The files of one launcher."""

    artifacts: tuple[Artifact, ...]
    """All files of an export folder; the first file starts the job."""
    remarks: tuple[str, ...]
    """Warnings of the recipe and notes of the program, such as what it does differently from the plan."""


def launch_files(recipe: Recipe, launcher_id: str, helper: Artifact | None = None) -> tuple[Artifact, ...]:
    """Return all files of an export folder; the first file starts the job. Raises the errors of `launch`."""
    return launch(recipe, launcher_id, helper).artifacts


def launch(recipe: Recipe, launcher_id: str, helper: Artifact | None = None) -> Launch:
    """Return the files of one launcher, and the remarks in them.

    `helper` is the exported module, if any, with which a user's own torch program applies the plan.
    Raises UsageError for an unknown launcher, for a recipe that contradicts itself or that its program cannot
    run, for a launcher that cannot start this program or its nodes, and for an empty slot that the launcher
    needs.
    """
    row = find_launcher(launcher_id)
    files = form_for(row, recipe)
    if row.has_one_node and recipe.parallelism.nodes > 1:
        raise UsageError(
            f"{row.title}: the recipe has {recipe.parallelism.nodes} nodes",
            "plan for one node, or use another launcher: "
            f"{', '.join(each.id for each in LAUNCHERS if not each.has_one_node)}",
        )
    _require_slots(recipe, row)
    files = msgspec.structs.replace(files, notes=(*files.notes, *_secret_notes(files)))
    if helper is not None:
        files = msgspec.structs.replace(files, files=(*files.files, helper))
    scripts: tuple[Artifact, ...] = row.load().render(_for_launcher(recipe, files, row.id), files)
    artifacts = (
        *scripts,
        Artifact(path="recipe.toml", text=dump_recipe(recipe)),
        plan_file(recipe),
        *files.files,
    )
    return Launch(artifacts, remarks(recipe, files))


def _secret_notes(files: ProgramFiles) -> tuple[str, ...]:
    """Return a note for each secret to which the arguments refer."""
    return tuple(
        f"The program gets the secret in {name}: export it in the shell that starts the job (Kubernetes: "
        "slot token_secret); no file contains its value"
        for name in referenced(word for word in files.words if isinstance(word, str))
    )


def asks_address(recipe: Recipe, launcher_id: str) -> bool:
    """Return whether the shell that starts the files must state the first host in MASTER_ADDR."""
    row, has_hosts = find_launcher(launcher_id), recipe.resources.hosts or recipe.parallelism.nodes == 1
    if has_hosts or not row.asks_address:
        return False
    return form_for(row, recipe).processes != "task"


def form_for(row: LauncherRow, recipe: Recipe) -> ProgramFiles:
    """Return the first form of the program that the launcher can start.

    Raises UsageError if there is none.
    """
    files = program_files(recipe)
    startable = _startable(row, recipe, files)
    if startable:
        return startable[0]
    able = [other.id for other in LAUNCHERS if _startable(other, recipe, files)]
    lack = f"needs {_PROCESSES[files.processes]}"
    if row.software and row.software not in files.modules:
        lack = f"does not use {row.software}"
    elif _leaves_image(row, recipe, files):
        image = slot_value(recipe, "container_image")
        lack = f"reaches the other nodes by ssh and would start their ranks outside {image}"
    raise UsageError(
        f"{row.title} cannot start this program: {_program_id(recipe)} {lack}",
        f"launchers for it: {', '.join(able)}",
    )


def _startable(row: LauncherRow, recipe: Recipe, files: ProgramFiles) -> list[ProgramFiles]:
    """Return the forms of the program that the launcher can start."""
    if row.software and row.software not in files.modules:
        return []
    return [
        form for form in files.forms if form.processes in row.starts and not _leaves_image(row, recipe, form)
    ]


def _leaves_image(row: LauncherRow, recipe: Recipe, form: ProgramFiles) -> bool:
    """Return whether the program would run in an image on the first node, and outside it on the others."""
    image = slot_value(recipe, "container_image")
    is_entered = image.endswith(".sif") or (row.enters_images and bool(image))
    return is_entered and form.uses_ssh and recipe.parallelism.nodes > 1


def _require_slots(recipe: Recipe, row: LauncherRow) -> None:
    """Raise UsageError for the first slot that the launcher needs and nobody filled."""
    for name in row.needs:
        if not slot_value(recipe, name):
            slot = load_slots()[name]
            raise UsageError(
                f"{row.title} needs the slot {name}: {slot.title[0].lower()}{slot.title[1:]}",
                f"add --slot {name}=VALUE, such as {slot.example}, or put it into the site file",
            )


def able_launchers(recipe: Recipe) -> tuple[str, ...]:
    """Return the ids of the usual launchers that can start the recipe's program; if there are none, of all
    others.

    Launchers that need a slot are left out. Raises UsageError for a recipe that contradicts itself or that
    its program cannot run.
    """
    program_files(recipe)
    able = [row for row in LAUNCHERS if not row.needs and _can_start(recipe, row.id)]
    usual = [row for row in able if row.is_usual]
    return tuple(row.id for row in usual or able)


def first_launcher(recipe: Recipe, batch_system: str = "") -> str:
    """Return the id of a launcher that can start the recipe as it is; empty if there is none.

    A launcher of the site's batch system comes first, then a usual one.
    """
    rows = sorted(
        LAUNCHERS,
        key=lambda row: (not batch_system or row.batch_system != batch_system, not row.is_usual),
    )
    return next((row.id for row in rows if _can_start(recipe, row.id)), "")


def _can_start(recipe: Recipe, launcher_id: str) -> bool:
    try:
        launch_files(recipe, launcher_id)
    except UsageError:
        return False
    return True


def _for_launcher(recipe: Recipe, files: ProgramFiles, launcher_id: str) -> Recipe:
    """Return the recipe with the variables that the script of this launcher exports.

    A variable of the recipe has precedence over the program's, because a person may have edited it.
    """
    own = [
        variable
        for variable in recipe.environment
        if not variable.launchers or launcher_id in variable.launchers
    ]
    names = {variable.name for variable in recipe.environment}
    added = [variable for variable in files.environment if variable.name not in names]
    return msgspec.structs.replace(recipe, environment=(*own, *added))
