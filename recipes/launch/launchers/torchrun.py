"""torchrun on one node or on several; `launch.sh` starts one node, `launch-all.sh` all nodes over ssh."""

from probes.base.errors import UsageError
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import companions, render_script

SCRIPT = "launch.sh"
START_ALL_HOSTS = "launch-all.sh"


def render(recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the script, then the other files. Raises UsageError for a contradictory recipe."""
    scripts = [Artifact(path=SCRIPT, text=render_script("torchrun.sh.j2", recipe), mode=0o755)]
    if recipe.parallelism.nodes > 1 and recipe.resources.hosts:
        scripts.append(
            Artifact(path=START_ALL_HOSTS, text=render_script("launch-all.sh.j2", recipe), mode=0o755)
        )
    return (*scripts, *companions(recipe))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job.

    Raises UsageError for several nodes without host names.
    """
    if recipe.parallelism.nodes == 1:
        return (f"{folder}/{SCRIPT}", "--", *arguments)
    if recipe.resources.hosts:
        return (f"{folder}/{START_ALL_HOSTS}", "--", *arguments)
    raise UsageError(
        f"recipe {recipe.name!r} needs {recipe.parallelism.nodes} nodes, but names no hosts",
        f"on every node: MASTER_ADDR=ADDRESS_OF_THE_FIRST {folder}/{SCRIPT} NODE_RANK; "
        "or set resources.hosts in the recipe, or use the launcher of your scheduler",
    )
