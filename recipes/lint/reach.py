"""Settings that reach a command.

A variable before a command reaches that command alone. An export applies from its line on. An export in a
subshell ends with the subshell, and an export in a function applies from the call on. A container or a shell
on another machine gets only the variables that the command passes to it.
"""

import itertools
from collections.abc import Iterator, Mapping

from recipes.lint.document import Command, Document, Setting, is_launch
from recipes.lint.views import (
    commands,
    enclosing,
    nodes_of,
    number,
    option,
    option_number,
    resolved,
    starts,
    tasks_per_node,
)

_BENCHMARKS = ("_perf", "nvbandwidth", "osu_bw", "ib_write_bw")
_MOST_ASKED = 100
"""Largest number of commands that are considered for one setting."""
Given = Mapping[str, Setting]


def given_to(document: Document, command: Command) -> Given:
    """Return the variables that a command gets, by name."""
    own = {item.name: item for item in command.settings}
    return {**document.shared, **document.exports[id(command.exported)], **own}


def text_in(given: Given, name: str) -> str | None:
    """Return the value of a variable if the file states the value literally, else None."""
    item = given.get(name)
    return item.value.strip() if item is not None and item.is_literal and item.value is not None else None


def setting_for(document: Document, command: Command, name: str) -> Setting | None:
    """Return the setting of a variable that a command gets; None if the command gets none."""
    for item in reversed(command.settings):
        if item.name == name:
            return item
    return document.exports[id(command.exported)].get(name) or document.shared.get(name)


def getters(document: Document, item: Setting) -> Iterator[Command]:
    """Yield the programs of the job that get this setting, not another setting of the same name."""
    near = document.own_users.get(id(item)) if item.reaches == "command" else None
    candidates = document.commands if near is None else near
    return (
        command
        for command in candidates
        if setting_for(document, command, item.name) == item and computes(command)
    )


def is_aside(document: Document, item: Setting) -> bool:
    """Return whether the job runs without a setting.

    There are two cases. No launch of the script gets the setting. Or the file sets the variable for a single
    command, and this command is a benchmark or gets another value than other commands.
    """
    if item.reaches != "command":
        is_script = document.kind in ("shell", "sbatch")
        return is_script and bool(document.launches) and next(getters(document, item), None) is None
    users = list(itertools.islice(getters(document, item), _MOST_ASKED))
    if any(command.program.endswith(_BENCHMARKS) for command in users):
        return True
    is_launched = any(is_launch(command) for command in users)
    return any(value != item.value for value in _values(document, item.name, of_launches=is_launched))


def is_switched(document: Document, item: Setting) -> bool:
    """Return whether a script sets the variable in a branch or a loop, which shows that it is intended."""
    return item.is_conditional and document.kind in ("shell", "sbatch")


def _values(document: Document, name: str, *, of_launches: bool) -> frozenset[str | None]:
    """Return the values of a variable that the launches of a file get.

    Without `of_launches`, return the values that all computing commands get. The value None means that a
    command runs without the variable.
    """
    key = (name, of_launches)
    if key not in document.value_cache:
        candidates = (
            document.launches
            if of_launches
            else (command for command in document.commands if computes(command))
        )
        given = (setting_for(document, command, name) for command in candidates)
        document.value_cache[key] = frozenset(None if item is None else item.value for item in given)
    return document.value_cache[key]


def computes(command: Command) -> bool:
    """Return whether the command is a program of the job, not a tool such as `echo`."""
    return starts(command) in (
        "torchrun",
        "accelerate",
        "deepspeed",
        "python",
        "srun",
        "mpirun",
    ) or command.program.endswith((".py", ".sh", *_BENCHMARKS))


def nodes_that_get(document: Document, item: Setting) -> int | None:
    """Return the largest number of machines on which commands get this setting, if the file states numbers.

    If no command is known, return the number of machines that the file requests.
    """
    users = list(itertools.islice(getters(document, item), _MOST_ASKED))
    if not users:
        return nodes_of(document) if item.reaches != "command" else None
    counts = [nodes_under(document, command) for command in users]
    known = [count for count in counts if count is not None]
    return max(known) if known else None


def nodes_under(document: Document, command: Command) -> int | None:
    """Return the number of machines on which a command runs.

    The first of these sources that states a number decides: the options of the command, the options of the
    step around the command, the requests of the job. A Python program outside of all steps runs on one
    machine if the script is a batch script or has launches.
    """
    for name in ("nnodes", "num-machines", "num-nodes"):
        machines = number((resolved(document, option(command, name)) or "").partition(":")[0])
        if machines is not None:
            return machines
    around = command if starts(command) == "srun" else enclosing(document, command, "srun")
    if around is not None:
        return option_number(document, around, "nodes") or nodes_of(document)
    outer = enclosing(document, command, "torchrun", "accelerate", "deepspeed", "mpirun")
    if outer is not None:
        return nodes_under(document, outer)
    is_program = starts(command) == "python" or command.program.endswith(".py")
    has_launches = document.kind == "sbatch" or any(commands(document, "torchrun", "deepspeed"))
    return 1 if is_program and has_launches else nodes_of(document)


def tasks_on_each_node(document: Document, step: Command) -> int | None:
    """Return the number of tasks of a step on each node; None if the file does not state numbers."""
    per_node = option_number(document, step, "ntasks-per-node")
    if per_node is not None:
        return per_node
    tasks, nodes = (
        option_number(document, step, "ntasks"),
        option_number(document, step, "nodes"),
    )
    if tasks is not None:
        over = nodes or nodes_of(document)
        if over:
            return max(1, tasks // over)
        return 1 if tasks == 1 else None
    return tasks_per_node(document) if option(step, "ntasks", "ntasks-per-node") is None else None
