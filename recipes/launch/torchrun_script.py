"""The scripts of torchrun: one for a node, and one that starts all nodes over ssh."""

import msgspec

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.program_files import Agent, ProgramFiles, torch_agent
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import RESTARTS, preflight, render_script
from recipes.launch.slots import slot_value


def torchrun_files(
    recipe: Recipe,
    files: ProgramFiles,
    script: str,
    start_all: str,
    *,
    elastic: bool = False,
    needs_guard: bool = False,
) -> tuple[Artifact, ...]:
    """Return the script of a node, a script that starts all hosts if several are named, and a node's tests.

    An elastic job restarts its ranks after a failure. With `needs_guard`, every program is started as a
    command of its own, because the agent accepts no `-m`. Raises UsageError for an elastic job whose program
    does not start with torchrun, or whose smallest number of nodes is impossible.
    """
    nodes = recipe.parallelism.nodes
    can_guard = files.processes == "rank" and bool(files.agent.any_command)
    is_guarded = can_guard and (needs_guard or not files.ends_with_parent)
    values = {
        "script": script,
        "start_all": start_all,
        "elastic": elastic,
        "restarts": RESTARTS,
        "min_nodes": _min_nodes(recipe) if elastic else nodes,
        "guarded": is_guarded,
        "needed": _tool(files.agent),
    }
    if elastic and files.agent.words != torch_agent(recipe).words:
        raise UsageError(
            f"{recipe.program} starts its ranks itself, and only torchrun can restart them",
            "use the launcher torchrun or slurm",
        )
    scripts = [
        Artifact(path=script, text=render_script("torchrun.sh.j2", recipe, files, **values), mode=EXECUTABLE)
    ]
    if nodes > 1 and recipe.resources.hosts and files.processes != "job":
        text = render_script("launch-all.sh.j2", recipe, files, **values)
        scripts.append(Artifact(path=start_all, text=text, mode=EXECUTABLE))
    return (*scripts, preflight(recipe, files))


def with_agent(recipe: Recipe, files: ProgramFiles, agent: Agent) -> ProgramFiles:
    """Return the program with another starter of its ranks.

    A program with a starter of its own keeps this starter if `agent` is the same tool. Raises UsageError if
    it is another tool.
    """
    if not _tool(files.agent):
        return msgspec.structs.replace(files, agent=agent)
    if _tool(files.agent) == _tool(agent):
        return files
    raise UsageError(
        f"{recipe.program} starts its ranks with {_tool(files.agent)}, not with {_tool(agent)}",
        "use the launcher torchrun or slurm",
    )


def _tool(agent: Agent) -> str:
    """Return the package of an agent that is started as a module; empty for torch's own agent."""
    is_module = len(agent.words) > 1 and agent.words[0] == "-m"
    package = str(agent.words[1]).partition(".")[0] if is_module else ""
    return "" if package == "torch" else package


def _min_nodes(recipe: Recipe) -> int:
    """Return the fewest nodes with which an elastic job continues; the default is all nodes."""
    nodes, stated = recipe.parallelism.nodes, slot_value(recipe, "min_nodes")
    if not stated:
        return nodes
    if not stated.isdecimal() or not 1 <= int(stated) <= nodes:
        raise UsageError(
            f"slot min_nodes: {quoted(stated)} is not a number of nodes from 1 to {nodes}",
            "give the fewest nodes with which training may go on",
        )
    return int(stated)


def start_torchrun(
    recipe: Recipe, folder: str, arguments: tuple[str, ...], script: str, start_all: str
) -> tuple[str, ...]:
    """Return the command that starts every rank of the job.

    Raises UsageError for several nodes without host names.
    """
    if recipe.parallelism.nodes == 1:
        return (f"{folder}/{script}", "--", *arguments)
    if recipe.resources.hosts:
        return (f"{folder}/{start_all}", "--", *arguments)
    raise UsageError(
        f"recipe {recipe.name!r} needs {recipe.parallelism.nodes} nodes, but names no hosts",
        f"on every node: MASTER_ADDR=ADDRESS_OF_THE_FIRST {folder}/{script} NODE_RANK; "
        "or set resources.hosts in the recipe, or use the launcher of your scheduler",
    )
