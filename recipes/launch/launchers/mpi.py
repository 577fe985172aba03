"""MPI: a script in which mpirun starts every rank, here or on several hosts."""

import re

from probes.base.errors import UsageError
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import companions, for_launcher, render_script

SCRIPT = "launch-mpi.sh"
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_ONE_INTERFACE = re.compile(r"=?([A-Za-z0-9_.-]+)")
"""A single interface. NCCL's `=` means the exact name; lists and exclusions (`^`) do not match."""


def render(recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the script, then the files beside the script.

    Raises UsageError for a recipe that contradicts itself and for IPv6 addresses.
    """
    for host in recipe.resources.hosts:
        if ":" in host:
            raise UsageError(
                f"host {host!r}: mpirun reads the part after a colon as a number of slots", "give host names"
            )
    text = render_script("mpi.sh.j2", recipe, exported=_exported(recipe), interface=_interface(recipe))
    return (Artifact(path=SCRIPT, text=text, mode=0o755), *companions(recipe))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job."""
    del recipe  # the script or the scheduler of mpirun names the hosts
    return (f"{folder}/{SCRIPT}", "--", *arguments)


def _exported(recipe: Recipe) -> tuple[str, ...]:
    """Return the variables that Open MPI must pass to ranks of other hosts."""
    own = ("MASTER_ADDR", "MASTER_PORT", *(("PYTHONPATH",) if recipe.command.kind == "reference" else ()))
    return tuple(
        dict.fromkeys((*own, *(variable.name for variable in for_launcher(recipe, "mpi").environment)))
    )


def _interface(recipe: Recipe) -> str:
    """Return the interface for the ranks' connections; empty unless the recipe names a single interface."""
    for variable in recipe.environment:
        match = _ONE_INTERFACE.fullmatch(variable.value) if variable.name in _INTERFACES else None
        if match is not None and recipe.parallelism.nodes > 1:
            return match[1]
    return ""
