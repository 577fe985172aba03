"""Pods and SkyPilot tasks: their requests and commands, and their GPUs compared with the ranks."""

import re

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Entry, Place
from recipes.lint.readers.grammars import SHELLS
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    commands,
    container_path_at,
    entries,
    entry_value,
    number,
    option,
    option_number,
    ranks_here,
    total,
)

_EXTENDED = re.compile(r"(?:nvidia|amd)\.com/.+|rdma/.+|vpc\.amazonaws\.com/efa")
"""Resources that cannot be overcommitted. Source: Kubernetes documentation, extended resources."""
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_OPERATOR_VARIABLES = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"})
_RANKS = ("node-rank", "machine-rank")


_SHELL_VARIABLE = re.compile(r"(?<![$\\])\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_OF_PODS = frozenset({
    "HOSTNAME", "HOME", "PATH", "LD_LIBRARY_PATH", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "POD_IP",
    "POD_NAME", "NODE_NAME", "HOST_IP", "JOB_COMPLETION_INDEX", "MASTER_ADDR",
})  # fmt: skip
"""Variables that pods have even if the file does not set them."""


@per_document("kubernetes")
def expansions(document: Document, context: Context) -> Findings:
    """Check for `$NAME` in values of variables: Kubernetes expands only `$(NAME)`."""
    values = r".*containers\[\d+\]\.env\[\d+\]\.value"
    others = [item for item in document.entries if not re.fullmatch(values, item.path)]
    if any(_fills_in(item) for item in others):
        return  # Another program fills in the variables of this file before Kubernetes reads it.
    own = _OF_PODS | {item.name for item in document.settings}
    for item in entries(document, values):
        match = _SHELL_VARIABLE.search(item.value) if isinstance(item.value, str) else None
        name = (match[1] or match[2]) if match is not None else ""
        if match is not None and name in own:
            yield make_finding(
                "kubernetes-env-variable",
                document,
                item.place,
                f"Kubernetes does not expand {match[0]}, so that the value is this text",
                fix=f"Write $({name}) after the entry that sets {name}, or expand it in the command.",
                severity=None if match[0] == item.value else "warning",
            )


def _fills_in(item: Entry) -> bool:
    is_outside = re.search(r"\.(?:command|args)\b|\.data\b", item.path) is None
    return is_outside and isinstance(item.value, str) and _SHELL_VARIABLE.search(item.value) is not None


@per_document("kubernetes")
def requests(document: Document, context: Context) -> Findings:
    """Check that GPUs and NICs are requested as limits."""
    for item in entries(document, r".*containers\[\d+\]\.resources\.requests\..+"):
        head, _, name = item.path.partition(".resources.requests.")
        if not _EXTENDED.fullmatch(name) or item.value is None:
            continue  # the API drops a key without a value
        limit = entry_value(document, f"{head}.resources.limits.{name}")
        if limit is None and not _is_filled_in(document, head):
            yield make_finding(
                "kubernetes-gpu-limit",
                document,
                item.place,
                f"{name} is requested without a limit, so the API refuses the pod",
                fix="Write the number below limits; the request is then equal to the limit.",
            )
        elif (
            limit is not None
            and None not in (number(str(limit)), number(str(item.value)))
            and str(limit) != str(item.value)
        ):
            yield make_finding(
                "kubernetes-gpu-limit",
                document,
                item.place,
                f"{item.value} {name} are requested, but the limit is {limit}: the API refuses unequal "
                "numbers",
                fix="Write the number only below limits.",
            )


def _is_filled_in(document: Document, container: str) -> bool:
    """Return whether the text is a patch or a template instead of a whole pod."""
    return entry_value(document, f"{container}.image") is None or "{{" in document.text


@per_document("kubernetes")
def ranks(document: Document, context: Context) -> Findings:
    """Check for a rank that every replica of a template gets."""
    for command in document.commands:
        rank = next((name for name in _RANKS if number(option(command, name)) is not None), None)
        node_count = option(command, "nnodes", "num-machines", "num-nodes")
        if rank is None or node_count is None or number(node_count) == 1:
            continue
        container = container_path_at(document, command.place)
        count = _replicas(document, container) if container else 1
        if count > 1:
            yield make_finding(
                "kubernetes-rank-fixed",
                document,
                _place_of(command, option(command, rank) or ""),
                f"all {count} pods of this template have node rank {option(command, rank)}",
                fix="Use a variable that the operator sets: RANK, JOB_COMPLETION_INDEX or LWS_WORKER_INDEX.",
            )


@per_document("kubernetes")
def operators(document: Document, context: Context) -> Findings:
    """Check for variables that the operator sets too."""
    by_container: dict[str, list[Entry]] = {}
    for item in entries(document, r".*\bpytorchReplicaSpecs\..*containers\[\d+\]\.env\[\d+\]\.name"):
        value = entry_value(document, item.path.removesuffix("name") + "value")
        if str(item.value) in _OPERATOR_VARIABLES and value is not None:
            by_container.setdefault(item.path.rpartition(".env[")[0], []).append(item)
    for items in by_container.values():
        names = ", ".join(str(item.value) for item in items)
        yield make_finding(
            "kubernetes-operator-variable",
            document,
            items[0].place,
            f"the operator sets {names} for each pod too; its versions differ in which value they use",
            fix="Remove the entry.",
        )


def _place_of(command: Command, text: str) -> Place:
    """Return the place of the option that states the rank, or else of the command."""
    for argument in command.arguments:
        if re.fullmatch(rf"--(?:node|machine)[-_]rank=?(?:{re.escape(text)})?", argument.text):
            return argument.place
    return command.place


def _replicas(document: Document, container: str) -> int:
    """Return the number of pods that a controller makes from the template.

    Each group of a LeaderWorkerSet is a separate job.
    """
    parts = container.split(".")
    if "leaderTemplate" in parts or ("leaderWorkerTemplate" in parts and "workerTemplate" not in parts):
        return 1
    if "workerTemplate" in parts:
        size = entry_value(document, ".".join([*parts[: parts.index("workerTemplate")], "size"]))
        return size - 1 if isinstance(size, int) else 1
    most = 1
    for end in range(len(parts), 0, -1):
        for name in ("replicas", "parallelism"):
            stated = entry_value(document, ".".join([*parts[:end], name]))
            most = max(most, stated if isinstance(stated, int) and not isinstance(stated, bool) else 1)
    return most


@per_document("kubernetes")
def lists(document: Document, context: Context) -> Findings:
    """Check for variables in a list of words, which no shell expands."""
    judged: set[str] = set()
    for item in entries(document, r".*containers\[\d+\]\.(?:command|args)\[\d+\]"):
        container = item.path.rpartition(".")[0]
        if container in judged or not isinstance(item.value, str) or "\n" in item.value:
            continue
        own = _names(document, container)
        match = next((match for match in _VARIABLE.finditer(item.value) if match[1] in own), None)
        if match is None or _has_shell(document, container):
            continue
        judged.add(container)
        yield make_finding(
            "kubernetes-list-variable",
            document,
            item.place,
            f"{match[0]} reaches the program literally, because no shell reads a list of words",
            fix=f"Write $({match[1]}), which Kubernetes expands, or start the program in a shell.",
        )


def _names(document: Document, container: str) -> set[str]:
    """Return the variables of the container."""
    return {str(entry.value) for entry in entries(document, re.escape(container) + r"\.env\[\d+\]\.name")}


def _has_shell(document: Document, container: str) -> bool:
    words: list[Entry] = [
        entry
        for entry in document.entries
        if entry.path.startswith((f"{container}.command[", f"{container}.args["))
    ]
    return any(
        str(word.value).rpartition("/")[2] in SHELLS or str(word.value) == "-c" for word in words
    ) or not any(".command[" in word.path for word in words)


_REPLICATED = re.compile(r"(?:\[\d+\]\.)?spec\.replicatedJobs\[\d+\]\.template\.")
_REPLICAS = re.compile(r"(.*\bpytorchReplicaSpecs)\.")


@per_document("kubernetes")
def counts(document: Document, context: Context) -> Findings:
    """Check for more ranks than GPUs, and for more or fewer machines than pods."""
    for command in commands(document, *TRAINERS):
        container = container_path_at(document, command.place)
        trainer = "" if container else _trainer_at(document, command.place)
        if not container + trainer or command.is_conditional:
            continue
        held = f"{trainer}.resourcesPerNode" if trainer else f"{container}.resources"
        gpus = number(str(entry_value(document, f"{held}.limits.nvidia.com/gpu")))
        wanted = ranks_here(document, command)
        if gpus is not None and wanted is not None and wanted > gpus:
            yield make_finding(
                "kubernetes-gpus-fewer",
                document,
                command.place,
                f"{plural(wanted, 'rank')}, but the container gets {plural(gpus, 'GPU')}",
                fix=f"Start {plural(gpus, 'rank')}, or request {plural(wanted, 'GPU')}.",
            )
        stated = entry_value(document, f"{trainer}.numNodes") if trainer else None
        pods = stated if isinstance(stated, int) else pods_of(document, container)
        yield from _pods(document, command, pods)


def _trainer_at(document: Document, place: Place) -> str:
    """Return the path of the TrainJob's trainer whose command is at this place; empty if there is none."""
    for item in entries(document, r"(?:\[\d+\]\.)?spec\.trainer\.(?:command|args)\[\d+\]"):
        if item.place.line == place.line:
            return item.path.rpartition(".")[0]
    return ""


def _pods(document: Document, command: Command, pods: int | None) -> Findings:
    wanted = number(option(command, "nnodes", "num-machines"))
    if wanted is not None and wanted > 1 and pods is not None and wanted != pods:
        yield make_finding(
            "kubernetes-nodes-differ",
            document,
            command.place,
            f"the launcher expects {plural(wanted, 'machine')}, but the job has {plural(pods, 'pod')}",
            fix=f"Write {pods}, or request {plural(wanted, 'pod')}.",
        )


def pods_of(document: Document, container: str) -> int | None:
    """Return the number of pods of one job; None unless an operator or an indexed Job states the number."""
    match = _REPLICAS.match(container)
    if match is not None:
        elastic = match[1].removesuffix("pytorchReplicaSpecs") + "elasticPolicy."
        if any(item.path.startswith(elastic) for item in document.entries):
            return None
        roles = {
            item.path.removeprefix(f"{match[1]}.").partition(".")[0]
            for item in document.entries
            if item.path.startswith(f"{match[1]}.")
        }
        return _sum([entry_value(document, f"{match[1]}.{name}.replicas") for name in roles])
    if ".leaderWorkerTemplate." in f".{container}":  # a group of LeaderWorkerSet is one job
        return _sum(
            [
                entry_value(
                    document, container.partition("leaderWorkerTemplate")[0] + "leaderWorkerTemplate.size"
                )
            ]
        )
    if _REPLICATED.match(container):
        return _pods_of_job_set(document, container)
    head = re.fullmatch(r"((?:\[\d+\]\.)?)spec\.template\.spec\.containers\[\d+\]", container)
    if head is None or entry_value(document, f"{head[1]}kind") != "Job":
        return None
    is_indexed = entry_value(document, f"{head[1]}spec.completionMode") == "Indexed"
    return _sum([entry_value(document, f"{head[1]}spec.parallelism")]) if is_indexed else None


def _pods_of_job_set(document: Document, container: str) -> int | None:
    """Return the pods of a JobSet; None if it has several kinds of jobs, which need not form one group."""
    jobs = container.rpartition("replicatedJobs[")[0] + "replicatedJobs"
    job = f"{jobs}[0]"
    if not container.startswith(job) or any(item.path.startswith(f"{jobs}[1]") for item in document.entries):
        return None
    replicas, pods = (
        entry_value(document, f"{job}.replicas"),
        entry_value(document, f"{job}.template.spec.parallelism"),
    )
    both = (1 if replicas is None else replicas, 1 if pods is None else pods)
    return both[0] * both[1] if isinstance(both[0], int) and isinstance(both[1], int) else None


def _sum(replicas: list[str | int | float | bool | None]) -> int | None:
    """Return the sum of replicas, with 1 for a missing number; None if a number is unknown."""
    return total([1 if count is None else number(str(count)) for count in replicas])


_ACCELERATORS = re.compile(r"(?!tpu)([A-Za-z][\w.-]*)(?::(\d+))?")


@per_document()
def skypilot_tasks(document: Document, context: Context) -> Findings:
    """Compare ranks with the GPUs of a node, and machines with nodes."""
    gpus, nodes = _skypilot_gpus(document), _skypilot_nodes(document)
    if gpus is None:
        return
    for command in commands(document, *TRAINERS):
        if command.is_conditional:
            continue
        wanted = ranks_here(document, command)
        if wanted is not None and wanted > gpus:
            yield make_finding(
                "skypilot-gpus-fewer",
                document,
                command.place,
                f"{plural(wanted, 'rank')} on each node, but a node has {plural(gpus, 'GPU')}",
                fix="Write --nproc-per-node=$SKYPILOT_NUM_GPUS_PER_NODE.",
            )
        machines = option_number(document, command, "nnodes", "num-machines")
        if machines is not None and nodes is not None and machines not in (1, nodes):
            yield make_finding(
                "skypilot-nodes-differ",
                document,
                command.place,
                f"the launcher expects {plural(machines, 'machine')}, but num_nodes is {nodes}",
                fix="Write --nnodes=$SKYPILOT_NUM_NODES.",
            )


def _skypilot_gpus(document: Document) -> int | None:
    """Return the GPUs per node of a SkyPilot task; None if the file is not a task or states no number."""
    if document.kind != "kubernetes" or any(item.path == "kind" for item in document.entries):
        return None
    match = _ACCELERATORS.fullmatch(str(entry_value(document, "resources.accelerators") or ""))
    return None if match is None else int(match[2] or 1)


def _skypilot_nodes(document: Document) -> int | None:
    nodes = entry_value(document, "num_nodes")
    return 1 if nodes is None else number(str(nodes))
