"""horovodrun: a script in which Horovod's own starter starts every rank, here or over ssh on several hosts.

Source: horovod/horovod at v0.28.1, horovod/runner/launch.py (options), gloo_run.py (every rank gets
NCCL_SOCKET_IFNAME from --network-interfaces, and the folder's name reaches the remote shell unquoted) and
mpi_run.py.
"""

from probes.base.errors import UsageError
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import preflight, render_script
from recipes.launch.slots import slot_value
from recipes.launch.templates.horovod_job import HOST, options_of

SCRIPT = "launch-horovodrun.sh"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script and the tests of a node.

    Raises UsageError for several nodes without host names or with a .sif image, and for IPv6 addresses.
    """
    nodes, hosts = recipe.parallelism.nodes, recipe.resources.hosts
    if nodes > 1 and not hosts:
        raise UsageError(
            f"horovodrun needs the names of the {nodes} nodes, and recipe {recipe.name!r} names no hosts",
            "set resources.hosts in the recipe, or use the launcher slurm",
        )
    image = slot_value(recipe, "container_image")
    if nodes > 1 and image.endswith(".sif"):
        raise UsageError(
            f"horovodrun reaches the other nodes by ssh and would start their ranks outside {image}",
            "use the launcher mpi, which starts every rank in the image",
        )
    for host in hosts:
        if not HOST.fullmatch(host):
            raise UsageError(f"host {host!r}: horovodrun takes a host as NAME:SLOTS", "give host names")
    places = hosts if nodes > 1 else ("localhost",)
    values = {variable.name: variable.value for variable in recipe.environment}
    options = options_of(places, recipe.parallelism.ranks_per_node, values.get("NCCL_SOCKET_IFNAME", ""))
    text = render_script("horovodrun.sh.j2", recipe, files, script=SCRIPT, options=tuple(options))
    return (Artifact(path=SCRIPT, text=text, mode=EXECUTABLE), preflight(recipe, files))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job."""
    del recipe  # the script names the hosts
    return (f"{folder}/{SCRIPT}", "--", *arguments)
