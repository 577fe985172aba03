"""Elastic torchrun: the ranks start again after a failure, and a lost node may come back."""

from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.torchrun_script import start_torchrun, torchrun_files

SCRIPT = "launch-elastic.sh"
START_ALL_HOSTS = "launch-all-elastic.sh"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script of a node and, if the recipe names several hosts, the script that starts all.

    Raises UsageError if the program does not start with torchrun, or for an impossible smallest number of
    nodes.
    """
    return torchrun_files(recipe, files, SCRIPT, START_ALL_HOSTS, elastic=True)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job.

    Raises UsageError for several nodes without host names.
    """
    return start_torchrun(recipe, folder, arguments, SCRIPT, START_ALL_HOSTS)
