"""Commands of a job that do not run on all of its nodes and tasks, or start the wrong number of ranks."""

import posixpath
import re
from collections.abc import Iterator

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.reach import given_to, setting_for, tasks_on_each_node, text_in
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    commands,
    directive,
    enclosing,
    gpus_per_node,
    has_unknown_words,
    mentions,
    nodes_of,
    number,
    option,
    option_number,
    resolved,
    starts,
    tasks_per_node,
    words,
)

_OTHER_WAYS = (
    r"\b(?:ssh|pdsh|clush|mpirun|mpiexec|parallel|ray|horovodrun|blaunch|dsh|jsrun|aprun|ibrun|submitit|"
    r"dask)\b"
)
_STEPS = ("srun", "mpirun")
_SEVERAL = 2


def launchers_in_tasks(documents: Documents, context: Context) -> Findings:
    """Check for several tasks of a node that each start a launcher of local ranks."""
    for document, command, step in _trainers_of_tasks(documents):
        if resolved(document, option(command, "nproc-per-node")) == "1":
            continue
        count = tasks_on_each_node(*step)
        if count is not None and count > 1:
            yield make_finding(
                "slurm-launcher-per-task",
                document,
                command.place,
                f"srun starts {count} tasks on each node, and each task starts a {starts(command)} with "
                "its own ranks",
                fix="Request --ntasks-per-node=1; the launcher starts the ranks.",
            )


def _trainers_of_tasks(
    documents: Documents,
) -> Iterator[tuple[Document, Command, tuple[Document, Command]]]:
    """Yield each launcher of local ranks that a step starts, with the document and the command of the step.

    The launcher is in the same script, or in another file of the same call that the step starts, as in
    `srun bash -c ./launch.sh`.
    """
    scripts = {
        posixpath.basename(other.name): (other, command)
        for other in documents
        if other.kind in ("shell", "sbatch")
        for command in commands(other, *TRAINERS)
        if enclosing(other, command, "srun") is None
    }
    for document in documents:
        for command in document.commands:
            step = enclosing(document, command, "srun")
            if step is None:
                continue
            if starts(command) in TRAINERS:
                yield document, command, (document, step)
            elif command.program in scripts and scripts[command.program][0] is not document:
                yield *scripts[command.program], (document, step)


@per_document("shell", "sbatch")
def nodes(document: Document, context: Context) -> Findings:
    """Check for launchers that run only on the first node, or that expect another number of nodes."""
    for command in commands(document, "torchrun", "accelerate", "axolotl"):
        if starts(command) == "axolotl" and not words(command).startswith("train"):
            continue
        step = enclosing(document, command, *_STEPS)
        asked = _asked(document, step)
        stated = option_number(document, command, "nnodes", "num-machines")
        if asked is None or (step is not None and option_number(document, step, "nodes") == 1):
            continue
        if stated is not None and stated > 1 and stated != asked:
            yield make_finding(
                "slurm-nodes-differ",
                document,
                command.place,
                f"the job requests {plural(asked, 'node')}, but {starts(command)} waits for {stated}",
                fix="Write $SLURM_NNODES instead of the number.",
            )
        elif asked > 1 and step is not None and _is_alone(document, command):
            yield make_finding(
                "slurm-nodes-differ",
                document,
                command.place,
                f"the job requests {plural(asked, 'node')}, but "
                + (
                    "--nnodes is 1"
                    if "nnodes" in command.options
                    else "without --nnodes torchrun assumes one node"
                ),
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
                f"without srun, {starts(command)} runs on the first of {plural(asked, 'node')} only",
                fix="Start it with srun, one task on each node: srun --ntasks-per-node=1 "
                f"{starts(command)} ...",
            )


@per_document("sbatch")
def steps(document: Document, context: Context) -> Findings:
    """Check for steps that need more nodes or GPUs than the job has."""
    nodes = number((directive(document, "nodes") or "").rpartition("-")[2])
    gpus = gpus_per_node(document)
    if mentions(document, r"\bsalloc\b") or re.search(r"(?m)^#SBATCH\s+(?:hetjob|packjob)", document.text):
        return
    for step in commands(document, "srun"):
        if {"jobid", "het-group", "pack-group"} & step.options.keys():
            continue
        wanted = option_number(document, step, "nodes")
        each = number((resolved(document, option(step, "gpus-per-node")) or "").rpartition(":")[2])
        if nodes is not None and wanted is not None and wanted > nodes:
            requested = f"{plural(wanted, 'node')}, but the job has {nodes}"
        elif gpus and each is not None and each > gpus:
            requested = f"{plural(each, 'GPU')} on each node, but the job has {gpus}"
        else:
            continue
        yield make_finding(
            "slurm-step-wide",
            document,
            step.place,
            f"srun requests {requested}",
            fix="Request more in #SBATCH, or less for the step.",
        )


def _asked(document: Document, step: Command | None) -> int | None:
    """Return the nodes of the step if the step states a number, else the nodes of the job."""
    own = option_number(document, step, "nodes") if step is not None and step.program == "srun" else None
    job = nodes_of(document) if document.directives else None
    return own if own is not None else job


def _starts_by_itself(document: Document) -> bool:
    """Return whether no command in the file starts programs on other nodes."""
    return not mentions(document, _OTHER_WAYS) and not mentions(document, r"\bsrun\b")


def _is_alone(document: Document, command: Command) -> bool:
    """Return whether a torchrun has the address of a rendezvous but assumes one node."""
    meets = "rdzv-endpoint" in command.options or "master-addr" in command.options
    nodes = resolved(document, option(command, "nnodes"))
    by_variable = setting_for(document, command, "PET_NNODES") is not None or has_unknown_words(command)
    missing = "nnodes" not in command.options or nodes == "1"
    return starts(command) == "torchrun" and meets and missing and not by_variable


_KNOWS_OTHERS = r"(?i)nodelist|hostnames|hostfile|machinefile|nodefile|SLURM_PROCID|SLURM_NODEID|master_addr"


@per_document("sbatch")
def scripts(document: Document, context: Context) -> Findings:
    """Check for Python that the batch shell starts once in a job of several nodes.

    A file that reads the names of its nodes is left out, because it may start the other ranks itself.
    """
    nodes_asked = number((directive(document, "nodes") or "").partition("-")[0])
    if (nodes_asked or 1) < _SEVERAL or not _starts_by_itself(document):
        return
    # a script that is started by another program may find the other nodes itself
    trains = [
        command
        for command in document.commands
        if command.program.endswith(".py") and set(command.inside) <= {"python"}
    ]
    if trains and gpus_per_node(document) and not mentions(document, _KNOWS_OTHERS):
        yield make_finding(
            "slurm-script-alone",
            document,
            trains[0].place,
            f"without srun, {trains[0].program} runs once, on the first of {nodes_asked} nodes",
            fix="Start it with srun.",
        )


_BY_SLURM = r"--launcher[= ][\"']?slurm\b"
"""Option of mmengine and similar programs whose ranks take their numbers from Slurm."""


@per_document("sbatch")
def tasks(document: Document, context: Context) -> Findings:
    """Check for Python whose ranks are Slurm's tasks, but which the batch shell starts only once."""
    if not _starts_by_itself(document):
        return
    wanted = nodes_of(document) or 1
    count = number(directive(document, "ntasks")) or wanted * (tasks_per_node(document) or 1)
    for command in document.commands:
        by_slurm = re.search(_BY_SLURM, " ".join(argument.text for argument in command.arguments)) is not None
        if count > 1 and by_slurm and set(command.inside) <= {"python"}:
            yield make_finding(
                "slurm-task-alone",
                document,
                command.place,
                f"without srun, only one of {count} tasks is started, and it waits for the others",
                fix="Start it with srun.",
            )
            break


_RANK_VARIABLES = ("WORLD_SIZE", "RANK", "MASTER_ADDR")
_RESHAPING = frozenset(
    {"nodes", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "overlap", "het-group"}
)
"""Options that give a step other resources or another number of tasks than the job has."""


@per_document("sbatch")
def task_ranks(document: Document, context: Context) -> Findings:
    """Check tasks of `srun python train.py` if a variable such as WORLD_SIZE shows that they are ranks."""
    if next(commands(document, *TRAINERS), None) is not None:
        return
    for command in commands(document, "python"):
        step = enclosing(document, command, "srun")
        if step is not None and not _RESHAPING & step.options.keys() and not command.is_conditional:
            yield from _task_ranks(document, command, step)


def _task_ranks(document: Document, command: Command, step: Command) -> Findings:
    given, nodes = given_to(document, command), nodes_of(document)
    if not any(name in given for name in _RANK_VARIABLES):
        return
    asked = option(step, "ntasks")
    tasks = number(resolved(document, asked)) if asked is not None else _tasks_of_job(document)
    world = number(text_in(given, "WORLD_SIZE"))
    if world is not None and tasks is not None and world != tasks:
        yield make_finding(
            "slurm-world-size",
            document,
            given["WORLD_SIZE"].place,
            f"WORLD_SIZE is {world}, but srun starts {plural(tasks, 'task')}",
            fix="Write WORLD_SIZE=$SLURM_NTASKS.",
        )
    each, gpus = (tasks // nodes if tasks is not None and nodes else None), gpus_per_node(document)
    if (
        each is not None
        and gpus is not None
        and each > gpus
        and not mentions(document, r"(?i)\bmps\b|nvidia-cuda-mps|gloo")
    ):
        yield make_finding(
            "slurm-more-ranks-than-gpus",
            document,
            step.place,
            f"{plural(each, 'task')} on each node, but the job requests {plural(gpus, 'GPU')} per node",
            fix=f"Start {plural(gpus, 'task')} on each node, or request {plural(each, 'GPU')}.",
        )


def _tasks_of_job(document: Document) -> int | None:
    """Return the tasks of the whole job; None if the requests do not state numbers."""
    total = number(directive(document, "ntasks"))
    each, nodes = tasks_per_node(document), nodes_of(document)
    if total is not None:
        return total
    return each * nodes if each is not None and nodes else None
