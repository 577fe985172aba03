"""The command, variables and files of a program inside a container, for every engine of containers."""

import math
import re
from collections.abc import Callable

import msgspec

from probes.base.errors import UsageError
from probes.base.record import Record, quoted
from recipes.launch.plan_json import PLAN_FILE, plan_file
from recipes.launch.program_files import FolderFile, ProgramFiles, Word
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import first_sentence
from recipes.launch.slots import slot_value

FOLDER = "/rigtune"
"""Folder of the container at which the program's files are mounted."""
MASTER_PORT = 29500
"""Port of the rendezvous in a container with its own network: torch's default."""
DEFAULT_GRACE_S = 300
"""Time for a last checkpoint if the plan does not know how long one takes.

The number is a choice, not a measurement.
"""
_STEP_MARGIN_S = 60
"""Time to finish the running step and to close the process group; the number is a choice."""
_INTERFACE = re.compile(r"\w+_SOCKET_IFNAME|UCX_NET_DEVICES|OMPI_MCA_\w+_if_include")
"""Variables that name network interfaces of the host."""
_RDMA_DEVICE = re.compile(r"NCCL_IB_(?:HCA|GID_INDEX)|NVSHMEM_HCA_LIST")
"""Variables that name RDMA devices of the host."""
_MIG = re.compile(r"\bMIG (\d+g\.\d+gb)\b")
_MOUNT = re.compile(r"(/[^:,]*):(/[^:,]*)")


class Meeting(Record, kw_only=True):
    """The rendezvous of the nodes; each part is an expression of the container engine or plain text."""

    node_rank: str
    master: str
    port: str = str(MASTER_PORT)
    hosts: str = ""
    """Names of all nodes in the order of their ranks, separated by commas; empty if unknown."""


class Variable(Record, kw_only=True):
    """An environment variable of the container, with a short reason, or none if the name explains it."""

    name: str
    value: str
    why: str = ""


def require_mounts(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return (host, container) pairs of the slot `container_mounts`. Raises UsageError for a wrong slot."""
    text = slot_value(recipe, "container_mounts")
    pairs = []
    for part in text.split(",") if text else ():
        match = _MOUNT.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"slot container_mounts: {quoted(part.strip())} is not HOST:CONTAINER",
                "write absolute paths such as /data:/data,/shared:/shared",
            )
        pairs.append((match[1], match[2]))
    return tuple(pairs)


def require_user(recipe: Recipe) -> tuple[int, int]:
    """Return the user and the group that the container runs as. Raises UsageError for a wrong slot."""
    text = slot_value(recipe, "run_as") or "1000:1000"
    match = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", text)
    if match is None:
        raise UsageError(f"slot run_as: {quoted(text)} is not UID:GID", "write numbers such as 1000:1000")
    return int(match[1]), int(match[2] or match[1])


def carried_files(files: ProgramFiles, recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the files that a container must see: the program's and the plan."""
    return (plan_file(recipe), *files.files)


def folder(recipe: Recipe, files: ProgramFiles) -> str:
    """Return the folder in which the program runs; empty for the folder of the image."""
    if files.runs_in_folder:
        return FOLDER
    return slot_value(recipe, "workdir") or recipe.command.working_directory


def grace_s(recipe: Recipe) -> int:
    """Return the seconds that a pod needs after SIGTERM.

    The pod finishes a step and writes a checkpoint, after waiting for a checkpoint that is being written.
    """
    checkpoints, predicted = recipe.checkpoints, recipe.predicted
    if checkpoints is None or checkpoints.write_s is None:
        return DEFAULT_GRACE_S
    step_s = predicted.step_time_high_s or predicted.step_time_s or 0.0
    return math.ceil((2 * checkpoints.write_s + step_s + _STEP_MARGIN_S) / 10) * 10


def is_gpu(recipe: Recipe) -> bool:
    return recipe.resources.device == "cuda"


def mig_profile(recipe: Recipe) -> str:
    """Return the profile of the MIG slices that the ranks use, such as `1g.10gb`; empty for whole GPUs."""
    match = _MIG.search(recipe.resources.device_name)
    return match[1] if match else ""


def shared_memory(recipe: Recipe) -> str:
    """Return the size of /dev/shm: 2 GiB per rank for NCCL and data loaders, at least 16 GiB."""
    return f"{max(16, 2 * recipe.parallelism.ranks_per_node)}Gi"


def variables(
    recipe: Recipe, files: ProgramFiles, *, has_host_network: bool, has_rdma: bool
) -> tuple[tuple[Variable, ...], tuple[str, ...]]:
    """Return the variables of the container, and a remark for each variable of the plan that it cannot have.

    A container with its own network lacks the host's interfaces, and the names of RDMA devices are useless in
    a container without such devices.
    """
    kept, remarks = [], []
    for row in recipe.environment:
        text = f"{row.name}={row.value}"
        if _INTERFACE.fullmatch(row.name) and not has_host_network:
            remarks.append(f"{text} is left out: the container does not have this interface of the host")
        elif row.name == "NCCL_MNNVL_ENABLE" and row.value == "1":
            remarks.append(
                f"{text} is left out: NVLink between nodes needs an IMEX channel in each container (in "
                "Kubernetes: of a ComputeDomain of NVIDIA's DRA driver)"
            )
        elif _RDMA_DEVICE.fullmatch(row.name) and not has_rdma:
            remarks.append(
                f"{text} is left out: the container has no RDMA device (in Kubernetes: slot network_resource)"
            )
        else:
            kept.append(Variable(name=row.name, value=row.value, why=first_sentence(row.why)))
    user, _ = require_user(recipe)
    own = [
        Variable(
            name="RIGTUNE_RECIPE", value=f"{FOLDER}/{PLAN_FILE}", why="The plan as JSON, for the program"
        ),
        Variable(name="PYTHONUNBUFFERED", value="1", why="Log lines appear at once"),
        Variable(
            name="TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
            value=str(grace_s(recipe) - 10),
            why="Seconds that torchrun leaves its ranks after SIGTERM; its default is 30",
        ),
    ]
    if user:
        why = "A user that the image does not know has no home"
        own.append(Variable(name="HOME", value="/tmp", why=why))  # noqa: S108
        own.append(Variable(name="USER", value="rigtune"))
    names = {row.name for row in recipe.environment}
    return (*kept, *(row for row in own if row.name not in names)), tuple(remarks)


def refuse_arguments(file: str, arguments: tuple[str, ...]) -> None:
    """Raise UsageError for arguments of the program, because only the file itself can state them."""
    if arguments:
        raise UsageError(
            f"{file} is used as it stands, and cannot take the arguments {quoted(' '.join(arguments))}",
            "add them to command.arguments in recipe.toml and export again",
        )


def without_interfaces(recipe: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """Return the recipe without names of interfaces, which differ between machines, and remarks on them."""
    named = [row for row in recipe.environment if _INTERFACE.fullmatch(row.name)]
    kept = tuple(row for row in recipe.environment if row not in named)
    remarks = (f"{row.name}={row.value} is left out: interfaces have other names there" for row in named)
    return msgspec.structs.replace(recipe, environment=kept), tuple(remarks)


def node_command(
    recipe: Recipe, files: ProgramFiles, meeting: Meeting, literal: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Return the command of one node and its arguments, for an engine that starts commands without a shell.

    `literal` protects text from the engine's own expressions. A program with an agent gets the agent's
    options; another program gets the same values as variables.
    """
    write, executable = file_writer(literal), literal(container_executable(recipe, files))
    importing = list(map(literal, importing_words(files)))
    nodes = recipe.parallelism.nodes
    words = [write(word) for word in files.words]
    if files.processes == "node":
        values = {
            "NODE_RANK": meeting.node_rank,
            "NODE_COUNT": str(nodes),
            "MASTER_ADDR": meeting.master,
            "MASTER_PORT": meeting.port,
            **({"NODE_HOSTS": meeting.hosts} if meeting.hosts else {}),
        }
        return [*importing, "env", *(f"{name}={value}" for name, value in values.items()), executable], words
    agent = files.agent
    rendezvous = list(agent.one_node)
    if nodes > 1 or not rendezvous:
        rendezvous = [agent.node_rank, meeting.node_rank, agent.master_address, meeting.master]
        rendezvous += [agent.master_port, meeting.port]
        rendezvous += [agent.run_id, literal(recipe.name)] if agent.run_id else []
    command = [*importing, executable, *(write(word) for word in agent.words)]
    return command, [*rendezvous, *agent.sizes, *words]


def importing_words(files: ProgramFiles) -> tuple[str, ...]:
    """Return the words that precede the command of a program that imports modules of its folder; else none.

    A variable of the container would replace the image's own PYTHONPATH, so a shell extends that of the
    image.
    """
    if not files.imports_from_folder:
        return ()
    extended = f"PYTHONPATH={FOLDER}${{PYTHONPATH:+:$PYTHONPATH}}"
    return ("sh", "-c", f'export {extended} && exec "$0" "$@"')


def container_executable(recipe: Recipe, files: ProgramFiles) -> str:
    """Return what runs the program's words in the container: its own executable, or the interpreter."""
    return files.executable or slot_value(recipe, "container_python") or "python3"


def file_writer(literal: Callable[[str], str]) -> Callable[[Word], str]:
    """Return a function that writes a word as text; a file becomes its path in the container."""
    return lambda word: f"{FOLDER}/{word.name}" if isinstance(word, FolderFile) else literal(word)
