"""Slurm tasks that are ranks themselves, compared with the GPUs of a node and WORLD_SIZE."""

from __future__ import annotations

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.reach import given_to, text_in
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    commands,
    directive,
    enclosing,
    gpus_per_node,
    mentions,
    nodes_of,
    number,
    option,
    resolved,
    tasks_per_node,
)

_RANK_VARIABLES = ("WORLD_SIZE", "RANK", "MASTER_ADDR")
_RESHAPING = frozenset(
    {"nodes", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "overlap", "het-group"}
)
"""Options that give a step another shape than the job's."""


@per_document("sbatch")
def counts(document: Document, context: Context) -> Findings:
    """Check `srun python train.py` if the variables of a rank are set."""
    if next(commands(document, *TRAINERS), None) is not None:
        return
    for command in commands(document, "python"):
        step = enclosing(document, command, "srun")
        if step is not None and not _RESHAPING & step.options.keys() and not command.is_conditional:
            yield from _judged(document, command, step)


def _judged(document: Document, command: Command, step: Command) -> Findings:
    given, nodes = given_to(document, command), nodes_of(document)
    if not any(name in given for name in _RANK_VARIABLES):
        return
    asked = option(step, "ntasks")
    tasks = number(resolved(document, asked)) if asked is not None else _tasks(document)
    world = number(text_in(given, "WORLD_SIZE"))
    if world is not None and tasks is not None and world != tasks:
        yield make_finding(
            "slurm-world-size",
            document,
            given["WORLD_SIZE"].place,
            f"WORLD_SIZE is {world}, and srun starts {plural(tasks, 'task')}",
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
            f"{each} tasks on each node, and the job requests {plural(gpus, 'GPU')} there",
            fix=f"Start {plural(gpus, 'task')} on each node, or request {each} GPUs.",
        )


def _tasks(document: Document) -> int | None:
    """Return the tasks of the whole job, if its requests state them."""
    total = number(directive(document, "ntasks"))
    each, nodes = tasks_per_node(document), nodes_of(document)
    if total is not None:
        return total
    return each * nodes if each is not None and nodes else None
