"""Ray: a cluster of the job's own over ssh or in a Slurm allocation, and one program on its first node."""

from probes.base.errors import UsageError
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import preflight, render_script

SCRIPT = "launch-ray.sh"
NODE_SCRIPT = "ray-node.sh"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script of the job, that of each node, and the tests of a node.

    Raises UsageError for IPv6 addresses.
    """
    for host in recipe.resources.hosts:
        if ":" in host:
            raise UsageError(f"host {host!r}: Ray takes an address as HOST:PORT", "give host names")
    ranks = recipe.parallelism.ranks_per_node
    values = {
        "script": SCRIPT,
        "node_script": NODE_SCRIPT,
        "num_cpus": max(ranks, recipe.resources.cpus_per_node or ranks),
        "num_gpus": ranks if recipe.resources.device == "cuda" else 0,
    }
    return (
        *(
            Artifact(path=path, text=render_script(template, recipe, files, **values), mode=EXECUTABLE)
            for path, template in ((SCRIPT, "ray.sh.j2"), (NODE_SCRIPT, "ray-node.sh.j2"))
        ),
        preflight(recipe, files),
    )


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the cluster and the program.

    Raises UsageError for several nodes without host names.
    """
    if recipe.parallelism.nodes > 1 and not recipe.resources.hosts:
        raise UsageError(
            f"recipe {recipe.name!r} needs {recipe.parallelism.nodes} nodes, but names no hosts",
            f"set resources.hosts in the recipe, or start {folder}/{SCRIPT} in an allocation of Slurm",
        )
    return (f"{folder}/{SCRIPT}", "--", *arguments)
