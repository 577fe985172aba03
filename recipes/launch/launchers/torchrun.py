"""torchrun on one node or on several; `launch.sh` starts one node, `launch-all.sh` all nodes over ssh."""

from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.torchrun_script import start_torchrun, torchrun_files

SCRIPT = "launch.sh"
START_ALL_HOSTS = "launch-all.sh"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script of a node and, if the recipe names several hosts, the script that starts all."""
    return torchrun_files(recipe, files, SCRIPT, START_ALL_HOSTS)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job.

    Raises UsageError for several nodes without host names.
    """
    return start_torchrun(recipe, folder, arguments, SCRIPT, START_ALL_HOSTS)
