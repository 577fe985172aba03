"""Functions with which rules examine a document: its variables, requests and commands."""

import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from recipes.lint.document import Command, Directive, Document, DocumentKind, Entry, Place, Setting, lines_of

_SHORT_SLURM = {
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "a": "array",
    "w": "nodelist",
    "C": "constraint",
}
TRAINERS = ("torchrun", "accelerate", "deepspeed", "composer")
OLD_TORCH_NAMES = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
}
"""Names of PyTorch's variables before version 2.2, and their present names.

Source: pytorch/pytorch, ProcessGroupNCCL.hpp.
"""
_POD_CONTAINER = re.compile(r".*\b(?:initContainers|containers)\[\d+\](?=\.)")


def closest(name: str, names: Iterable[str], cutoff: float) -> str:
    """Return the most similar of `names`; empty if no name has at least the similarity `cutoff` (0 to 1)."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=cutoff)), "")


def suggestion(name: str) -> str:
    """Return the end of a message that suggests `name`; empty if `name` is empty."""
    return f"; did you mean {name}?" if name else ""


def of_kind(documents: tuple[Document, ...], kind: DocumentKind) -> Iterator[Document]:
    return (document for document in documents if document.kind == kind)


def last(document: Document, name: str) -> Setting | None:
    """Return the last setting of a variable; None if the file unsets the variable later, or never sets it."""
    item = document.last_given.get(name)
    is_unset = item is not None and item.value is None and item.is_literal
    return None if is_unset else item


def value(document: Document, name: str) -> str | None:
    """Return the value of a variable if the file states the value literally, else None."""
    item = last(document, name)
    return item.value.strip() if item is not None and item.is_literal and item.value is not None else None


def is_set(document: Document, *names: str) -> bool:
    return any(last(document, name) is not None for name in names)


def number(text: str | None) -> int | None:
    """Return the text as a number if it is a plain decimal number, else None."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text.strip()) else None


def total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of numbers; None if a number is unknown, or if there are no numbers."""
    stated = [count for count in counts if count is not None]
    return sum(stated) if stated and len(stated) == len(counts) else None


def code_lines(document: Document) -> tuple[tuple[int, str], ...]:
    """Return the lines that are neither blank nor comments, with their numbers."""
    return _code_lines(document.text)


@functools.lru_cache(maxsize=8)
def _code_lines(text: str) -> tuple[tuple[int, str], ...]:
    lines = enumerate(lines_of(text), 1)
    return tuple(
        (index, line) for index, line in lines if line.strip() and not line.lstrip().startswith(("#", "//"))
    )


_ACCELERATED = re.compile(
    r"(?i)\bgpus?\b|gres\b|cuda|nccl|torch|deepspeed|accelerate\b|horovod|tensorflow|\bjax\b|nvidia|rocm|"
    r"rccl|megatron|_perf\b|\btrain"
)


def may_use_gpus(document: Document) -> bool:
    """Return whether a file names a GPU, or software that trains on GPUs. Other jobs run on CPUs alone."""
    return _ACCELERATED.search(document.text) is not None


def mentions(document: Document, expression: str) -> bool:
    """Return whether an expression matches in a line that is not a comment."""
    return _mentions(document.text, expression)


@functools.lru_cache(maxsize=1024)
def _mentions(text: str, expression: str) -> bool:
    compiled = re.compile(expression)
    return any(compiled.search(line) for _, line in _code_lines(text))


def first_line(document: Document, expression: str) -> tuple[Place, re.Match[str]] | None:
    """Return the first place where an expression matches, except in lines that are comments."""
    compiled = re.compile(expression)
    for index, line in code_lines(document):
        match = compiled.search(line)
        if match is not None:
            return Place(
                line=index, column=match.start() + 1, end_line=index, end_column=match.end() + 1
            ), match
    return None


_REQUESTS = {
    "SLURM_NNODES": "nodes",
    "SLURM_JOB_NUM_NODES": "nodes",
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
}
"""Variables in which Slurm passes a request of the file to the job."""


def resolved(document: Document, text: str | None) -> str | None:
    """Return the value of a text if the value is known before the run, else None.

    `$SLURM_NNODES` becomes the number that the file requests.
    """
    if text is None:
        return None
    text = text.strip().strip("\"'")
    match = re.fullmatch(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", text)
    if match is not None and match[1] in _REQUESTS:
        return directive(document, _REQUESTS[match[1]])
    return None if "$" in text or "`" in text or "{{" in text or text.startswith("<") else text


def directive(document: Document, *names: str) -> str | None:
    """Return the value of a request of a batch script; None if the script has no such request."""
    item = _directive(document, names)
    return None if item is None else item.value.strip()


def directive_place(document: Document, *names: str) -> Place:
    item = _directive(document, names)
    return Place(line=1) if item is None else item.place


def slurm_requests(document: Document) -> Iterator[Directive]:
    """Return the requests to Slurm, not those to PBS or LSF."""
    return (item for item in document.directives if item.scheduler == "SBATCH")


def _directive(document: Document, names: tuple[str, ...]) -> Directive | None:
    for item in document.directives:
        # The one-letter options of PBS and LSF have other meanings than the options of Slurm.
        long = _SHORT_SLURM.get(item.name, item.name) if item.scheduler == "SBATCH" else item.name
        if long in names:
            return item
    return None


def option(command: Command, *names: str) -> str | None:
    """Return the value of an option of a command by its long name; None if the command lacks the option."""
    for name in names:
        if name in command.options:
            return command.options[name]
    for short, long in _SHORT_SLURM.items():
        if command.program in ("srun", "sbatch", "salloc") and long in names and short in command.options:
            return command.options[short]
    return None


def option_number(document: Document, command: Command, *names: str) -> int | None:
    """Return the number that an option of a command has; None if the file states no number."""
    return number(resolved(document, option(command, *names)))


def words(command: Command) -> str:
    """Return the arguments of the command, joined by blanks."""
    return " ".join(argument.text for argument in command.arguments)


def starts(command: Command) -> str:
    """Return the program of a command, with one name for all spellings of a launcher."""
    if command.program in ("accelerate", "accelerate-launch"):
        is_launch = command.program != "accelerate" or re.search(r"\blaunch\b", words(command))
        return "accelerate" if is_launch else "accelerate-other"
    if command.program in ("mpiexec", "mpiexec.hydra", "mpirun.openmpi", "orterun", "prterun"):
        return "mpirun"
    return command.program


def enclosing(document: Document, command: Command, *programs: str) -> Command | None:
    """Return the innermost command with one of these programs that starts `command`, else None."""
    nearest = None
    for other in document.commands:
        if other is command:
            break
        depth = len(other.inside)
        if starts(other) in programs and command.inside[: depth + 1] == (*other.inside, other.program):
            nearest = other
    return nearest


def has_unknown_words(command: Command) -> bool:
    """Return whether a variable may contain further options: `torchrun $ARGS train.py`."""
    before = ""
    for argument in command.arguments:
        if (
            not argument.is_literal
            and argument.text.startswith(("$", '"$', "`"))
            and (not before.startswith("-") or "=" in before)
        ):
            return True
        before = argument.text
    return False


def commands(document: Document, *launchers: str) -> Iterator[Command]:
    return (command for command in document.commands if starts(command) in launchers)


def nodes_of(document: Document) -> int | None:
    """Return the number of machines that the requests or the commands of a file state; None if none do."""
    asked = number((directive(document, "nodes") or "").partition("-")[0])
    if asked is not None:
        return asked
    # PBS: chunks are nodes only if they are scattered
    chunks = re.match(r"select=(\d+)(?=:|$)", directive(document, "l") or "")
    if chunks is not None and any("place=scatter" in item.value for item in document.directives):
        return int(chunks[1])
    for command in document.commands:
        for name in ("nnodes", "num-machines", "num-nodes", "nodes"):
            if name != "nodes" or command.program == "srun":
                machines = option_number(document, command, name)
                if machines is not None and (
                    name != "nodes" or machines > 1
                ):  # a step on one node does not limit the job
                    return machines
    return None


_PART_OF_A_NODE = 2
"""Largest number of requested GPUs per node that leaves room for another job on the same node."""


def has_whole_nodes(document: Document) -> bool:
    """Return whether no other job runs on the nodes of a batch script, according to its requests.

    The result is also True if the requests state no number of GPUs.
    """
    # a request for all memory, or for more than two GPUs, leaves no room for another job
    is_exclusive = (
        any(item.name == "exclusive" for item in document.directives) or directive(document, "mem") == "0"
    )
    gpus = gpus_per_node(document)
    return is_exclusive or gpus is None or gpus > _PART_OF_A_NODE


def is_one_machine(document: Document) -> bool:
    """Return whether all programs that the file starts run on one machine, as far as the file shows."""
    nodes = nodes_of(document)
    launchers = list(commands(document, *TRAINERS))
    if nodes is None and (
        document.kind == "devcontainer" or _has_own_network(document) or _meets_itself(document)
    ):
        return True
    if nodes is None and (value(document, "NNODES") == "1" or _has_one_instance(document)):
        return True
    if nodes is not None or not launchers:
        return nodes == 1
    return all(_is_alone(document, command) for command in launchers)


def _meets_itself(document: Document) -> bool:
    """Return whether the master is the loopback address, so that all ranks are on this machine."""
    return re.fullmatch(r"localhost|127\.\d+\.\d+\.\d+", value(document, "MASTER_ADDR") or "") is not None


def _has_one_instance(document: Document) -> bool:
    """Return whether a SageMaker estimator in Python has one instance."""
    counts = re.findall(r"\binstance_count\s*=\s*(\w+)", document.text) if document.kind == "python" else []
    return set(counts) == {"1"}


def _has_own_network(document: Document) -> bool:
    """Return whether other machines cannot reach the services of a compose file."""
    open_to_others = r"\bnetwork_mode:|\boverlay\b|\bmacvlan\b|\bhostfile\b|--node[-_]rank|\bray start"
    return document.kind == "compose" and not mentions(document, open_to_others)


def has_one_gpu(document: Document) -> bool:
    """Return whether no container of a pod gets more than one GPU, so that no GPU has a peer."""
    counts = [
        str(item.value) for item in document.entries if item.path.endswith("resources.limits.nvidia.com/gpu")
    ]
    return document.kind == "kubernetes" and bool(counts) and set(counts) == {"1"}


def _is_alone(document: Document, command: Command) -> bool:
    if has_unknown_words(command) or {"srun", "mpirun", "mpiexec", "pdsh"} & set(command.inside):
        return False
    away = {
        "torchrun": ("nnodes", "rdzv-endpoint", "master-addr", "node-rank"),
        "accelerate": ("config-file", "num-machines", "machine-rank", "main-process-ip"),
        "deepspeed": ("hostfile", "num-nodes", "node-rank", "master-addr"),
        "composer": ("world-size", "base-rank", "node-rank", "master-addr"),
    }[starts(command)]
    by_variable = any(name.startswith("PET_") for name in document.last_given)
    return not by_variable and not any(name in command.options for name in away)


def ranks_here(document: Document, command: Command) -> int | None:
    """Return the number of ranks that a launcher starts on each machine; None if not stated."""
    kind = starts(command)
    if kind == "torchrun":
        return option_number(document, command, "nproc-per-node")
    if kind == "composer":
        return option_number(document, command, "nproc")
    if kind == "accelerate" and option(command, "num-machines") in (None, "1"):
        return option_number(document, command, "num-processes")
    if kind == "deepspeed" and not {"hostfile", "include", "num-nodes"} & command.options.keys():
        return option_number(document, command, "num-gpus")
    return None


def is_one_process(document: Document) -> bool:
    """Return whether a single rank is started, so that there is no communication."""
    launchers = list(commands(document, *TRAINERS))
    counts = [
        resolved(document, option(launcher, "nproc-per-node", "num-processes", "num-gpus"))
        for launcher in launchers
    ]
    return bool(launchers) and is_one_machine(document) and all(count == "1" for count in counts)


def tasks_per_node(document: Document) -> int | None:
    """Return the number of tasks of a batch script on each node; None if not stated."""
    per_node = number(directive(document, "ntasks-per-node", "tasks-per-node"))
    tasks, nodes = (
        number(directive(document, "ntasks")),
        number((directive(document, "nodes") or "").partition("-")[0]),
    )
    if per_node is not None:
        return per_node
    return tasks // nodes if tasks is not None and nodes else None


def gpus_per_node(document: Document) -> int | None:
    """Return the number of GPUs that a batch script requests on each node; None if not stated."""
    for name in ("gpus-per-node", "gres"):
        asked = directive(document, name)
        match = (
            re.search(r"(?:^|[:,])(?:gpu:)?(?:[\w.-]+:)?(\d+)(?:\(|,|$)", asked)
            if asked and ("gpu" in asked or name != "gres")
            else None
        )
        if match is not None:
            return int(match[1])
    total, nodes = number((directive(document, "gpus") or "").rpartition(":")[2]), nodes_of(document)
    return total // nodes if total is not None and nodes else None


def entry(document: Document, path: str) -> Entry | None:
    return next((item for item in document.entries if item.path == path), None)


def keys_below(document: Document, prefix: str = "") -> dict[str, Entry]:
    """Return the first entry of each key in a block; without `prefix`, of each key at the first level."""
    below = (item for item in reversed(document.entries) if item.path.startswith(prefix))
    return {item.path.removeprefix(prefix).partition(".")[0].partition("[")[0]: item for item in below}


def entry_value(document: Document, path: str) -> str | int | float | bool | None:
    item = entry(document, path)
    return None if item is None else item.value


def entries(document: Document, expression: str) -> Iterator[Entry]:
    """Return the entries whose whole path matches a regular expression."""
    compiled = re.compile(expression)
    return (item for item in document.entries if compiled.fullmatch(item.path))


def literal_settings(document: Document, *names: str) -> Iterator[tuple[Setting, str]]:
    """Yield the settings of these variables that have a literal value, each with its value."""
    for item in document.given:
        if item.name in names and item.is_literal and item.value:
            yield item, item.value.strip()


def may_use_rdma(document: Document) -> bool:
    """Return False for pods that get no RDMA device; NCCL uses TCP in them."""
    devices = r"rdma|infiniband|hca|sriov|roce|efa\b|/ib\b|cncf\.io/networks|resourceClaims|privileged: *true"
    return document.kind != "kubernetes" or mentions(document, devices)


def is_on_cloud(document: Document) -> bool:
    """Return whether the file has settings or names of OCI, Alibaba, GCP, AWS's plugin or Slingshot."""
    return mentions(
        document, r"(?i)FI_CXI_|FI_PROVIDER=[\"']?cxi|NCCL_SOCKET_IFNAME=[\"']?=?hsn|AWS Libfabric"
    ) or mentions(document, r"(?i)BM\.GPU|\boci[-_]|alibaba|aliyun|/usr/local/gib|NCCL_NET=gIB")


def container_path_at(document: Document, place: Place) -> str:
    """Return the path of the pod's container that encloses a place; empty outside of containers."""
    at = (place.line, place.column)
    for item in entries(document, r".*\b(?:initContainers|containers)\[\d+\]\..*"):
        begin = (item.place.line, item.place.column)
        end = (item.place.end_line or item.place.line, item.place.end_column or item.place.column)
        match = _POD_CONTAINER.match(item.path)
        if match is not None and begin <= at <= end:
            return match[0]
    return ""
