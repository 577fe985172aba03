"""The model to train when the user names none."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from probes.base.errors import NoFeasiblePlanError
from recipes.job.models.names import find_model
from recipes.job.workload import TransformerModel
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import Decision
from recipes.predict.parameters import memory_interval

CPU_MODEL = "rigtune-mini"
"""Model of the reference workload that is part of rigtune. A CPU trains it in seconds."""

_GPU_MODELS = ("llama-3-8b", "llama-3.2-3b", "llama-3.2-1b", "gpt2", CPU_MODEL)
"""Ids of well-known models, largest first."""
_SHORTEST = {"cuda": 1024, "cpu": 32}
"""Tokens below which a smaller model is tried instead of a shorter sequence."""

Answer = TypeVar("Answer")


def default_jobs(cluster: Cluster, sequence_length: int | None) -> Iterator[tuple[TransformerModel, int]]:
    """Yield the models to try with their sequence lengths: larger models first, longer sequences first.

    If the user gives a length, only this length is tried.
    """
    for model in map(find_model, _GPU_MODELS if cluster.device == "cuda" else (CPU_MODEL,)):
        length = sequence_length or model.sequence_length
        yield model, length
        while sequence_length is None and length // 2 >= _SHORTEST[cluster.device]:
            length //= 2
            yield model, length


def first_plan(
    cluster: Cluster, sequence_length: int | None, plan: Callable[[TransformerModel, int], Answer]
) -> Answer:
    """Return the plan of the first model and sequence that fit the machine.

    `plan` raises NoFeasiblePlanError if a job does not fit. If no job fits, the error of the last job is
    raised.
    """
    jobs = list(default_jobs(cluster, sequence_length))
    for model, length in jobs[:-1]:
        try:
            return plan(model, length)
        except NoFeasiblePlanError:
            continue
    return plan(*jobs[-1])


def headroom_for_default_model(cluster: Cluster) -> float | None:
    """Return the part of a GPU's memory that stays free, so that the plan fits even in the worst case.

    None on a CPU, whose predicted memory is already that of the worst case.
    """
    return 1 - 1 / memory_interval("allocated").high if cluster.device == "cuda" else None


def for_default_model(decisions: tuple[Decision, ...], headroom: float | None) -> tuple[Decision, ...]:
    """Return the decisions of a plan whose model rigtune chose.

    Unless the user states a `headroom`, rigtune chose the memory that stays free, too.
    """
    because = "nobody named the model, so rigtune takes one that fits even in the worst case"
    return tuple(
        msgspec.structs.replace(row, basis="rule", because=because)
        if headroom is None and row.name == "memory_headroom"
        else row
        for row in decisions
    )
