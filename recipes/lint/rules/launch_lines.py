"""Command lines of launchers: their scripts, options and ports, front ends of torchrun, and Ray."""

import re

from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.reach import given_to
from recipes.lint.readers.grammars import DEEPSPEED_OPTIONS, SHELLS, TORCHRUN_OPTIONS
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    commands,
    directive,
    enclosing,
    has_unknown_words,
    is_set,
    nodes_of,
    number,
    option,
    option_number,
    resolved,
    tasks_per_node,
    words,
)

_KNOWN = {"torchrun": TORCHRUN_OPTIONS, "deepspeed": DEEPSPEED_OPTIONS}
_TORCHRUN_OWN = frozenset(
    {"nproc-per-node", "nnodes", "node-rank", "rdzv-backend", "rdzv-endpoint", "standalone", "master-port"}
)
_ACCELERATE_OWN = frozenset(
    {"num-processes", "num-machines", "machine-rank", "main-process-port", "main-process-ip", "multi-gpu"}
)
_DEFAULT_PORT = "29500"
"""Default port of deepspeed, and of torchrun without a rendezvous.

Source: torch/distributed/run.py, deepspeed/constants.py.
"""


@per_document()
def scripts(document: Document, context: Context) -> Findings:
    """Check the script of a launcher, and the options before it."""
    for command in commands(document, *_KNOWN) if document.kind in ("shell", "sbatch") else ():
        if _script_of(document, command) is None and _is_all_known(command):
            yield make_finding(
                "launcher-without-script",
                document,
                command.place,
                f"{command.program} has no script to start",
                fix="Name the script after the options; end a continued line with a backslash.",
            )
    for launcher, own in (("torchrun", _TORCHRUN_OWN), ("accelerate", _ACCELERATE_OWN)):
        for command in commands(document, launcher):
            yield from _behind(document, command, own)


def _script_of(document: Document, command: Command) -> Command | None:
    below = (*command.inside, command.program)
    at = document.commands.index(command) + 1
    follows = document.commands[at] if at < len(document.commands) else None
    return follows if follows is not None and follows.inside[: len(below)] == below else None


def _is_all_known(command: Command) -> bool:
    """Return whether each word is an option of the launcher or the value of an option, not the script."""
    names = command.options.keys()
    is_literal = all(argument.is_literal for argument in command.arguments)
    is_plain = not any(
        re.search(r"\.py\b|[{}<>\[\]*]|\.\.\.", argument.text) for argument in command.arguments
    )
    return (
        bool(names) and "help" not in names and names <= _KNOWN[command.program] and is_literal and is_plain
    )


def _behind(document: Document, command: Command, own: frozenset[str]) -> Findings:
    script = _script_of(document, command)
    if script is None or command.options or has_unknown_words(command):
        return
    lost = [name for name in script.options if name in own]
    if lost:
        yield make_finding(
            "launcher-options-late",
            document,
            script.place,
            f"--{lost[0]} comes after {script.program}, so the script gets it and {command.program} uses its "
            "defaults",
            fix=f"Write the options of {command.program} before {script.program}.",
        )


@per_document("shell", "sbatch")
def ports(document: Document, context: Context) -> Findings:
    """Check for launchers that use the same port of a machine at the same time."""
    running: dict[str, Command] = {}
    for command in document.commands:
        if command.program == "wait":  # all launchers in the background have ended
            running.clear()
        port = _port(document, command)
        if port is None:
            continue
        earlier = running.get(port)
        if earlier is not None:
            yield make_finding(
                "port-shared",
                document,
                command.place,
                f"{command.program} uses port {port}, which the launcher of line {earlier.place.line} "
                "still occupies",
                fix="Give each launcher a different port: --master-port, or torchrun --standalone.",
            )
        elif _goes_on(document, command):
            running[port] = command


def _port(document: Document, command: Command) -> str | None:
    """Return the port of a launcher on this machine; None if the file does not determine the port."""
    if command.program not in _KNOWN or command.inside or command.is_conditional:
        return None
    if not all(argument.is_literal for argument in command.arguments) or is_set(
        document, "PET_MASTER_PORT", "PET_RDZV_ENDPOINT"
    ):
        return None
    if {
        "standalone",
        "rdzv-endpoint",
        "rdzv-backend",
        "hostfile",
        "node-rank",
        "num-nodes",
    } & command.options.keys():
        return None
    if option(command, "nnodes") not in (None, "1"):
        return None
    port = resolved(document, option(command, "master-port") or _DEFAULT_PORT)
    return port if port is not None and port.isdecimal() and port != "0" else None


def _goes_on(document: Document, command: Command) -> bool:
    """Return whether the command runs in the background (`... &`)."""
    for line in document.lines[command.place.line - 1 :]:
        code = line.rstrip()
        if not code.endswith("\\"):
            return re.search(r"(?<![&|>])&\s*(?:#.*|\S+=\$!.*|pids?\+?=.*)?$", code) is not None
    return False


@per_document()
def node_ranks(document: Document, context: Context) -> Findings:
    """Check that the number of the node is in the variable that the program reads."""
    for command in commands(document, "llamafactory-cli", "swift", "megatron"):
        given = given_to(document, command)
        nodes = given.get("NNODES")
        has_several_nodes = nodes is not None and nodes.is_literal and (number(nodes.value) or 0) > 1
        if has_several_nodes and "RANK" in given and "NODE_RANK" not in given:
            yield make_finding(
                "frontend-node-rank",
                document,
                given["RANK"].place,
                f"{command.program} reads NODE_RANK, and without it every node is node 0; it does not "
                "read RANK",
                fix="Write NODE_RANK.",
            )


_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+)(?::\d+)?")


@per_document()
def ray_clusters(document: Document, context: Context) -> Findings:
    """Check the Slurm steps that start Ray's daemons."""
    for command in commands(document, "ray"):
        step = enclosing(document, command, "srun")
        if step is None or not re.match(r"start\b", words(command)):
            continue
        is_head = "head" in command.options
        if "block" not in command.options and SHELLS.isdisjoint(command.inside):
            yield make_finding(
                "ray-without-block",
                document,
                command.place,
                "ray start returns at once, so the step ends and Slurm ends the daemons with it",
                fix="Give --block, and start the step in the background with &.",
            )
        if is_head and (_step_tasks(document, step) or 1) > 1:
            yield make_finding(
                "ray-many-heads",
                document,
                command.place,
                f"srun starts {_step_tasks(document, step)} tasks, and each task becomes the head of a "
                "separate cluster",
                fix="Start the head by srun --nodes=1 --ntasks=1 -w FIRST_NODE.",
            )
        if not is_head and _LOOPBACK.fullmatch(command.options.get("address", "")):
            yield make_finding(
                "ray-loopback",
                document,
                command.place,
                f"--address={command.options['address']} is each node's own address, so workers do not "
                "find the head",
                fix="Give the address of the first node.",
            )


def _step_tasks(document: Document, step: Command) -> int | None:
    """Return the number of tasks of a step; None if the file does not state numbers."""
    tasks, nodes, each = (
        option_number(document, step, name) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if tasks is not None:
        return tasks
    over = nodes or nodes_of(document)
    count = each or tasks_per_node(document)
    if count is None and directive(document, "ntasks") is None:
        count = 1
    return over * count if over and count else None
