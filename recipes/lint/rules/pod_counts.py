"""GPUs and pods of a manifest, compared with the ranks and machines of its launchers."""

from __future__ import annotations

import re

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    commands,
    container_path_at,
    entry_value,
    number,
    option,
    ranks_here,
)

_REPLICAS = re.compile(r"(.*\bpytorchReplicaSpecs)\.")


@per_document("kubernetes")
def counts(document: Document, context: Context) -> Findings:
    """Check for more ranks than GPUs, and for machines that no pod is."""
    for command in commands(document, *TRAINERS):
        container = container_path_at(document, command.place)
        if not container or command.is_conditional:
            continue
        gpus = number(str(entry_value(document, f"{container}.resources.limits.nvidia.com/gpu")))
        wanted = ranks_here(document, command)
        if gpus is not None and wanted is not None and wanted > gpus:
            yield make_finding(
                "kubernetes-gpus-fewer",
                document,
                command.place,
                f"{plural(wanted, 'rank')}, and the container gets {plural(gpus, 'GPU')}",
                fix=f"Start {plural(gpus, 'rank')}, or request {plural(wanted, 'GPU')}.",
            )
        yield from _pods(document, command, container)


def _pods(document: Document, command: Command, container: str) -> Findings:
    wanted, pods = number(option(command, "nnodes", "num-machines")), pods_of(document, container)
    if wanted is not None and wanted > 1 and pods is not None and wanted != pods:
        yield make_finding(
            "kubernetes-nodes-differ",
            document,
            command.place,
            f"the launcher expects {wanted} machines, and the job makes {plural(pods, 'pod')}",
            fix=f"Write {pods}, or request {wanted} pods.",
        )


def pods_of(document: Document, container: str) -> int | None:
    """Return the number of pods of one job, if an operator or an indexed Job counts them, else None."""
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
    head = re.fullmatch(r"((?:\[\d+\]\.)?)spec\.template\.spec\.containers\[\d+\]", container)
    if head is None or entry_value(document, f"{head[1]}kind") != "Job":
        return None
    is_indexed = entry_value(document, f"{head[1]}spec.completionMode") == "Indexed"
    return _sum([entry_value(document, f"{head[1]}spec.parallelism")]) if is_indexed else None


def _sum(replicas: list[str | int | float | bool | None]) -> int | None:
    """Return the sum of replicas; an absent number counts as 1. None if one is unknown."""
    pods = [1 if count is None else number(str(count)) for count in replicas]
    return None if None in pods else sum(count for count in pods if count is not None)
