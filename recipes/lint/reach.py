"""Which settings reach which command: the one answer for all rules.

A variable before a command is that command's, an export holds from its line on, what a subshell exports ends
with it, and what a function exports holds from where it is called. A container, and a shell on another
machine, get what they are given alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from recipes.lint.document import Command, Document, Setting, is_launch
from recipes.lint.views import commands, enclosing, nodes_of, number, option, resolved, starts

_BENCHMARKS = ("_perf", "nvbandwidth", "osu_bw", "ib_write_bw")
_MOST_ASKED = 100
"""Commands that one setting is judged by."""
Given = Mapping[str, Setting]


def given_to(document: Document, command: Command) -> Given:
    """What a command gets, by name."""
    own = {item.name: item for item in command.settings}
    return {**document.shared, **document.exports[id(command.exported)], **own}


def text_in(given: Given, name: str) -> str | None:
    """The value of a variable, where the file states it literally."""
    item = given.get(name)
    return item.value.strip() if item is not None and item.is_literal and item.value is not None else None


def told_to(document: Document, command: Command, name: str) -> Setting | None:
    """What a command gets for one name."""
    for item in reversed(command.settings):
        if item.name == name:
            return item
    return document.exports[id(command.exported)].get(name) or document.shared.get(name)


def environments_in(documents: Iterable[Document]) -> Iterator[tuple[Document, Given]]:
    """What ranks get, once for each way that a file gives it, with the file."""
    for document in documents:
        for given in document.environments:
            yield document, given


def getters(document: Document, item: Setting) -> Iterator[Command]:
    """The programs of the job that get this very setting."""
    near = document.own_users.get(id(item)) if item.reaches == "command" else None
    several = document.commands if near is None else near
    return (one for one in several if told_to(document, one, item.name) == item and computes(one))


def is_aside(document: Document, item: Setting) -> bool:
    """Whether the job runs without it: no launch of the script gets it, or it is set for one command alone,
    which is one of several that compute, or a measurement.
    """
    if item.reaches != "command":
        is_script = document.kind in ("shell", "sbatch")
        return is_script and bool(document.launches) and next(getters(document, item), None) is None
    users = list(itertools.islice(getters(document, item), _MOST_ASKED))
    if any(one.program.endswith(_BENCHMARKS) for one in users):
        return True
    is_launched = any(is_launch(one) for one in users)
    return any(value != item.value for value in _values(document, item.name, of_launches=is_launched))


def is_switched(document: Document, item: Setting) -> bool:
    """Whether a script sets it in a branch or a loop: somebody asks for it."""
    return item.is_conditional and document.kind in ("shell", "sbatch")


def _values(document: Document, name: str, *, of_launches: bool) -> frozenset[str | None]:
    """With which values of a variable the launches of a file run, or all that computes there; None where one
    has none.
    """
    key = (name, of_launches)
    if key not in document.values_told:
        several = document.launches if of_launches else (one for one in document.commands if computes(one))
        told = (told_to(document, one, name) for one in several)
        document.values_told[key] = frozenset(None if item is None else item.value for item in told)
    return document.values_told[key]


def computes(command: Command) -> bool:
    """Whether a program of the job runs, and no tool of the shell's."""
    return starts(command) in (
        "torchrun",
        "accelerate",
        "deepspeed",
        "python",
        "srun",
        "mpirun",
    ) or command.program.endswith((".py", ".sh", *_BENCHMARKS))


def nodes_that_get(document: Document, item: Setting) -> int | None:
    """The most machines on which commands get this setting, where numbers tell; those of the file where no
    command is seen.
    """
    users = list(itertools.islice(getters(document, item), _MOST_ASKED))
    if not users:
        return nodes_of(document) if item.reaches != "command" else None
    told = [nodes_under(document, one) for one in users]
    known = [count for count in told if count is not None]
    return max(known) if known else None


def nodes_under(document: Document, command: Command) -> int | None:
    """Machines on which one command runs: by its own options, by those of the step around it, or by the
    job.
    """
    for name in ("nnodes", "num-machines", "num-nodes"):
        told = number((resolved(document, option(command, name)) or "").partition(":")[0])
        if told is not None:
            return told
    around = command if starts(command) == "srun" else enclosing(document, command, "srun")
    if around is not None:
        return number(resolved(document, option(around, "nodes"))) or nodes_of(document)
    outer = enclosing(document, command, "torchrun", "accelerate", "deepspeed", "mpirun")
    if outer is not None:
        return nodes_under(document, outer)
    is_program = starts(command) == "python" or command.program.endswith(".py")
    has_launches = document.kind == "sbatch" or any(commands(document, "torchrun", "deepspeed"))
    return 1 if is_program and has_launches else nodes_of(document)
