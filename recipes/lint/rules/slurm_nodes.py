"""Does what a job starts run on all of its nodes and tasks?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.finding import LintFinding
from recipes.lint.reach import setting_for
from recipes.lint.rule_table import make_finding
from recipes.lint.views import (
    commands,
    directive,
    enclosing,
    gpus_per_node,
    has_unknown_words,
    nodes_of,
    number,
    option,
    resolved,
    says,
    starts,
    tasks_per_node,
)

Documents = tuple[Document, ...]

_OTHER_WAYS = r"\b(?:ssh|pdsh|clush|mpirun|mpiexec|parallel|ray|horovodrun|blaunch|dsh|jsrun|aprun|ibrun|submitit|dask)\b"
_STEPS = ("srun", "mpirun")
_SEVERAL = 2


def nodes(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Launchers that run on the first node alone, or for another number of nodes."""
    del context
    for document in documents:
        if document.kind not in ("sbatch", "shell"):
            continue
        for command in commands(document, "torchrun", "accelerate"):
            step = enclosing(document, command, *_STEPS)
            asked = _asked(document, step)
            told = number(resolved(document, option(command, "nnodes", "num-machines")))
            if asked is None or (step is not None and _is_one_node(document, step)):
                continue
            if told is not None and told > 1 and told != asked:
                yield make_finding(
                    "slurm-nodes-differ",
                    document,
                    command.place,
                    f"the job asks for {asked} nodes, and {starts(command)} waits for {told}",
                    fix="Write $SLURM_NNODES in the place of the number.",
                )
            elif asked > 1 and step is not None and _is_alone(document, command):
                yield make_finding(
                    "slurm-nodes-differ",
                    document,
                    command.place,
                    f"the job asks for {asked} nodes, and without --nnodes torchrun takes one for the whole "
                    "job",
                    fix="Give --nnodes $SLURM_NNODES.",
                )
            elif (
                asked > 1
                and step is None
                and not command.inside
                and document.directives
                and _starts_by_itself(document)
            ):
                yield make_finding(
                    "slurm-srun-missing",
                    document,
                    command.place,
                    f"without srun {starts(command)} runs on the first of {asked} nodes alone",
                    fix="Start it by srun, one task on each node: srun --ntasks-per-node=1 "
                    f"{starts(command)} ...",
                )


def _asked(document: Document, step: Command | None) -> int | None:
    """Nodes of the step, where it says so; else of the job."""
    own = (
        number(resolved(document, option(step, "nodes")))
        if step is not None and step.program == "srun"
        else None
    )
    job = nodes_of(document) if document.directives else None
    return own if own is not None else job


def _is_one_node(document: Document, step: Command) -> bool:
    return number(resolved(document, option(step, "nodes"))) == 1


def _starts_by_itself(document: Document) -> bool:
    """Whether nothing in the file starts anything on other nodes."""
    return not says(document, _OTHER_WAYS) and not says(document, r"\bsrun\b")


def _is_alone(document: Document, command: Command) -> bool:
    """A torchrun on every node that has a place to meet and meets nobody."""
    meets = "rdzv-endpoint" in command.options or "master-addr" in command.options
    told = resolved(document, option(command, "nnodes"))
    by_variable = setting_for(document, command, "PET_NNODES") is not None or has_unknown_words(command)
    missing = "nnodes" not in command.options or told == "1"
    return starts(command) == "torchrun" and meets and missing and not by_variable


_KNOWS_OTHERS = r"(?i)nodelist|hostnames|hostfile|machinefile|nodefile|SLURM_PROCID|SLURM_NODEID|master_addr"


def scripts(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Python started once, by the batch shell of a job of several nodes, in a file that never asks which
    nodes those are.
    """
    del context
    for document in documents:
        nodes_asked = number((directive(document, "nodes") or "").partition("-")[0])
        if document.kind != "sbatch" or (nodes_asked or 1) < _SEVERAL or not _starts_by_itself(document):
            continue
        trains = [
            command
            for command in document.commands
            if command.program.endswith(".py") and set(command.inside) <= {"python"}
        ]
        if trains and gpus_per_node(document) and not says(document, _KNOWS_OTHERS):
            yield make_finding(
                "slurm-script-alone",
                document,
                trains[0].place,
                f"without srun {trains[0].program} runs once, on the first of {nodes_asked} nodes",
                fix="Start it by srun.",
            )


_BY_SLURM = r"--launcher[= ][\"']?slurm\b"
"""The option of mmengine and its kin by which ranks take their places from Slurm."""


def tasks(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Python started once, by the batch shell, where ranks are to come from Slurm's tasks."""
    del context
    for document in documents:
        if document.kind != "sbatch" or not _starts_by_itself(document):
            continue
        wanted = nodes_of(document) or 1
        count = number(directive(document, "ntasks")) or wanted * (tasks_per_node(document) or 1)
        for command in document.commands:
            by_slurm = (
                re.search(_BY_SLURM, " ".join(argument.text for argument in command.arguments)) is not None
            )
            if count > 1 and by_slurm and set(command.inside) <= {"python"}:
                yield make_finding(
                    "slurm-task-alone",
                    document,
                    command.place,
                    f"without srun one of {count} tasks is started, and it waits for the others",
                    fix="Start it by srun.",
                )
                break
