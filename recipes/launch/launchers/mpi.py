"""MPI: a script in which mpirun starts every rank, here or on several hosts."""

import re

from probes.base.errors import UsageError
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import exported_names, preflight, render_script, with_rank_environment

SCRIPT = "launch-mpi.sh"
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_ONE_INTERFACE = re.compile(r"=?([A-Za-z0-9_.-]+)")
"""A single interface. NCCL's `=` means the exact name; lists and exclusions (`^`) do not match."""


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script and the tests of a node. Raises UsageError for IPv6 addresses."""
    for host in recipe.resources.hosts:
        if ":" in host:
            raise UsageError(
                f"host {host!r}: mpirun reads the part after a colon as a number of slots", "give host names"
            )
    recipe = with_rank_environment(recipe, files)
    text = render_script(
        "mpi.sh.j2", recipe, files, exported=_exported(recipe, files), interface=_interface(recipe)
    )
    return (Artifact(path=SCRIPT, text=text, mode=EXECUTABLE), preflight(recipe, files))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job."""
    del recipe  # the script, or the scheduler that mpirun asks, names the hosts
    return (f"{folder}/{SCRIPT}", "--", *arguments)


def _exported(recipe: Recipe, files: ProgramFiles) -> tuple[str, ...]:
    """Return the names of the variables that Open MPI must pass to ranks of other hosts."""
    meeting = () if files.processes == "task" else ("MASTER_ADDR", "MASTER_PORT")
    own = ("RIGTUNE_LOGS", "RIGTUNE_RECIPE", "RIGTUNE_PREFLIGHT")
    path = ("PYTHONPATH",) if files.imports_from_folder else ("LD_LIBRARY_PATH",) if files.executable else ()
    return tuple(dict.fromkeys((*meeting, *own, *path, *exported_names(recipe))))


def _interface(recipe: Recipe) -> str:
    """Return the interface for the ranks' connections; empty unless the recipe names a single interface."""
    for variable in recipe.environment:
        match = _ONE_INTERFACE.fullmatch(variable.value) if variable.name in _INTERFACES else None
        if match is not None and recipe.parallelism.nodes > 1:
            return match[1]
    return ""
