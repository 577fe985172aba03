"""Docker: a script that starts the ranks of one node in a container."""

from recipes.launch.manifests.engine_script import engine_script, start_command
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script of a node. Raises UsageError for slots of a wrong form."""
    return (engine_script("docker", recipe, files),)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the job. Raises UsageError for several nodes."""
    return start_command("docker", recipe, folder, arguments)
