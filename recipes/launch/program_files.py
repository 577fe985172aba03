"""The part of a launch that depends on the program: its command, the starter of its ranks, and its files."""

from typing import Literal

from probes.base.record import Record
from recipes.launch.recipe import Artifact, Environment, Recipe
from recipes.launch.reference_files import HELPER


class FolderFile(Record):
    """A file beside the launch script, as a word of a command; each launcher writes its own path for it."""

    name: str


Word = str | FolderFile

Processes = Literal["rank", "task", "node", "job"]
"""Processes of a program. `rank`: one per rank, which an agent may start. `task`: one per rank, which only
mpirun, srun or horovodrun can start, because the ranks find each other through these. `node`: one per node.
`job`: one for the whole job.
"""


class Agent(Record, kw_only=True):
    """A Python program that starts the ranks of one node and lets the nodes meet, such as torch's agent.

    A launcher runs it once per node, with the command: interpreter, `words`, the options of the rendezvous,
    `sizes`, and the words of the program.
    """

    words: tuple[Word, ...] = ()
    """Words after the interpreter."""
    sizes: tuple[str, ...] = ()
    """Options that state the numbers of nodes and of ranks."""
    one_node: tuple[str, ...] = ()
    """Options of a rendezvous on one node, which replace those of the rank, the address and the port."""
    node_rank: str = ""
    """Option that takes the rank of the node, from 0."""
    master_address: str = ""
    """Option that takes the address of the first node."""
    master_port: str = ""
    run_id: str = ""
    """Option that takes an id of the attempt; empty if the agent has none."""
    logs: tuple[str, ...] = ()
    """Options for a log file of every rank; the name of the folder follows the last option."""
    any_command: tuple[str, ...] = ()
    """Option after which any command may follow in place of a Python program; empty if there is none."""


class ProgramFiles(Record, kw_only=True):
    """The command, files and variables of a recipe's program, for any launcher."""

    words: tuple[Word, ...]
    """Words after the executable: `train.py --lr 0.1` or `-m package.train`."""
    executable: str = ""
    """Path or name of the executable; empty for the Python interpreter."""
    processes: Processes = "rank"
    """Processes that a launcher starts with the words.

    A process per node finds NODE_RANK, NODE_COUNT, MASTER_ADDR, MASTER_PORT and, if the launcher knows them,
    NODE_HOSTS (names separated by commas, in the order of the ranks) in its environment.
    """
    agent: Agent = Agent()
    """Starter of a node's ranks; a launcher that starts each rank itself does not use it."""
    files: tuple[Artifact, ...] = ()
    """Configuration files beside the launch script; words refer to them with `FolderFile`."""
    environment: tuple[Environment, ...] = ()
    """Variables that the program needs in addition to those of the recipe."""
    rank_environment: tuple[Environment, ...] = ()
    """Variables that the agent would set, for launchers that start each rank themselves."""
    runs_in_folder: bool = False
    """True if the program runs in the export folder, not in the user's folder."""
    ends_with_parent: bool = False
    """True if a rank ends by itself when the process that started the rank dies."""
    modules: tuple[str, ...] = ("torch",)
    """Python modules that the interpreter must have."""
    uses_ssh: bool = False
    """True if the process reaches further nodes by ssh, which leads to the host, outside of an image."""
    otherwise: "ProgramFiles | None" = None
    """Another form of the same program, for launchers that cannot start this one."""
    notes: tuple[str, ...] = ()
    """Remarks for the user, such as what differs from the plan; they become comments of the script."""

    @property
    def imports_from_folder(self) -> bool:
        """Return whether the program imports modules of the export folder: its own source, or the helper."""
        return self.runs_in_folder or any(file.path == HELPER for file in self.files)

    @property
    def forms(self) -> tuple["ProgramFiles", ...]:
        """This form and the others, in the order in which a launcher tries them."""
        return (self, *(self.otherwise.forms if self.otherwise is not None else ()))


def torch_agent(recipe: Recipe) -> Agent:
    """Return torch's agent, `torchrun`, with the sizes of the recipe.

    On one node the ranks meet on the loopback, because the host name of a new server often cannot be
    resolved.
    """
    parallelism = recipe.parallelism
    return Agent(
        words=("-m", "torch.distributed.run"),
        sizes=("--nnodes", str(parallelism.nodes), "--nproc-per-node", str(parallelism.ranks_per_node)),
        one_node=("--standalone", "--local-addr", "127.0.0.1"),
        node_rank="--node-rank",
        master_address="--master-addr",
        master_port="--master-port",
        run_id="--rdzv-id",
        logs=("--tee", "3", "--log-dir"),
        any_command=("--no-python",),
    )


def accelerate_agent(recipe: Recipe, config: str) -> Agent:
    """Return `accelerate launch` with a file of settings; `--num_processes` is the number of all ranks."""
    parallelism = recipe.parallelism
    sizes = ("--num_machines", str(parallelism.nodes), "--num_processes", str(parallelism.world_size))
    return Agent(
        words=("-m", "accelerate.commands.launch", "--config_file", FolderFile(name=config)),
        sizes=sizes,
        # port 0 is any free port
        one_node=("--main_process_port", "0"),
        node_rank="--machine_rank",
        master_address="--main_process_ip",
        master_port="--main_process_port",
        logs=("--tee", "3", "--log_dir"),
        any_command=("--no_python",),
    )


def own_words(recipe: Recipe, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that start the user's script or module with these arguments."""
    command = recipe.command
    if command.kind == "module":
        return ("-m", command.target, *arguments)
    # the interpreter would treat a path that starts with a dash as an option
    return (f"./{command.target}" if command.target.startswith("-") else command.target, *arguments)
