"""The script of one node of a cloud job: variables, working folder, and the command of the ranks."""

import msgspec

from recipes.launch.manifests.container_words import MASTER_PORT, without_interfaces
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import render_script
from recipes.launch.slots import slot_value


def node_script(
    recipe: Recipe, files: ProgramFiles, *, script: str, service: str, job: str, place: str, hosts: str
) -> Artifact:
    """Return the script, which `service` runs on every node because the file `job` asks for it.

    `place` is shell text that assigns `node_rank` and `master`; `hosts` is a shell word: the names of all
    nodes in the order of their ranks, separated by commas.
    """
    recipe, left_out = without_interfaces(recipe)
    text = render_script(
        "node.sh.j2",
        recipe,
        msgspec.structs.replace(files, notes=(*files.notes, *left_out)),
        service=service,
        job=job,
        place=place,
        hosts=hosts,
        port=MASTER_PORT,
        script=script,
        interpreter=slot_value(recipe, "container_python") or "python3",
        work=slot_value(recipe, "workdir") or recipe.command.working_directory,
    )
    return Artifact(path=script, text=text, mode=EXECUTABLE)
