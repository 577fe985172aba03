"""DeepSpeed: its launcher on every node, for any program with a process per rank.

The launcher's own start over ssh is not used, because it passes arguments to a shell without quoting them,
forwards few variables, and ends ranks by a pattern of their command line
(deepspeed/launcher/multinode_runner.py, 0.19).
"""

from recipes.launch.program_files import Agent, FolderFile, ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.torchrun_script import start_torchrun, torchrun_files, with_agent

SCRIPT = "launch-deepspeed.sh"
START_ALL_HOSTS = "launch-all-deepspeed.sh"
HOSTFILE = "hostfile"

_AGENT = Agent(
    words=(
        *("-m", "deepspeed.launcher.runner", "--hostfile", FolderFile(name=HOSTFILE)),
        # the ranks find their place in the environment, as under torchrun
        *("--no_ssh", "--no_local_rank"),
    ),
    sizes=(),
    node_rank="--node_rank",
    master_address="--master_addr",
    master_port="--master_port",
    logs=("--enable_each_rank_log",),
    any_command=("--no_python",),
)


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script of a node, the script that starts all named hosts, and the hostfile.

    Raises UsageError for a program whose ranks another starter must start.
    """
    scripts = torchrun_files(
        recipe, with_agent(recipe, files, _AGENT), SCRIPT, START_ALL_HOSTS, needs_guard=True
    )
    return (*scripts, Artifact(path=HOSTFILE, text=_hostfile(recipe)))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job.

    Raises UsageError for several nodes without host names.
    """
    return start_torchrun(recipe, folder, arguments, SCRIPT, START_ALL_HOSTS)


def _hostfile(recipe: Recipe) -> str:
    """Return a line for each node in the order of their ranks; unnamed nodes are node0, node1, ..."""
    nodes, hosts = recipe.parallelism.nodes, recipe.resources.hosts
    names = hosts if len(hosts) == nodes else tuple(f"node{index}" for index in range(nodes))
    return "".join(f"{name} slots={recipe.parallelism.ranks_per_node}\n" for name in names)
