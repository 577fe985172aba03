"""Gradient compression: fewer bytes of each gradient on the wire."""

import msgspec

from probes.base.record import Unknown
from probes.base.units import duration, gib, percent
from recipes.constants import constant
from recipes.job.models.blocks import blocks_of
from recipes.job.workload import TransformerModel
from recipes.machine.cluster_records import Cluster
from recipes.machine.scaled_rates import with_figures, with_node_links
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.speed.collectives import collective_time_s, world_group
from recipes.predict.training_job import ImageJob, Job
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import (
    Situation,
    Verdict,
    copying_s,
    inapplicable,
    missing_setting,
    saving,
    time_of,
    trained_parameters,
    undecided,
)

_FP32_BYTES = 4.0
_HALF_BYTES = 2
_MORE_MESSAGES = 2
"""Additional all-reduces per bucket with PowerSGD, besides the all-reduce of plain DDP."""


def sent_bytes(job: Job) -> float:
    """Return the bytes on the wire of one element of a gradient without compression."""
    return float(job.element_bytes if isinstance(job, ImageJob) else job.stack.travelling_bytes)


def gradient_bytes(job: Job) -> float:
    """Return the bytes on the wire of all gradients of a rank without compression."""
    return sent_bytes(job) * trained_parameters(job)


def narrower_gradients(strategy: Strategy, here: Situation) -> Verdict:
    """Judge gradients that travel in 16 bits."""
    job = here.job
    sent, wanted = sent_bytes(job), strategy.figure("sent_bytes")
    if refusal := _refusal(strategy, here):
        return inapplicable(strategy, here, refusal)
    if sent <= wanted:
        return inapplicable(strategy, here, f"gradients already travel with {sent:g} bytes each")
    if strategy.id.startswith("bf16") and here.cluster.device == "cpu":
        return inapplicable(strategy, here, "torch offers this hook only with NCCL")
    if strategy.id.startswith("bf16") and not here.cluster.has_bf16:
        return inapplicable(strategy, here, f"{here.cluster.device_name} does not compute in bf16")
    factor = wanted / sent
    time = with_traffic(here, factor)
    casts = copying_s(strategy.figure("moved_bytes") * trained_parameters(job), here.cluster)
    if not here.is_plain:
        casts = 0.0  # the reduce-scatter of sharded gradients copies them in any case
    return _verdict(strategy, here, time, factor, casts)


def low_rank_gradients(strategy: Strategy, here: Situation) -> Verdict:
    """Judge PowerSGD: every matrix of gradients travels as two thin matrices.

    An n x m matrix becomes r (n + m) elements if these are fewer than n m / 2 (torch,
    `_should_compress`). Each rank keeps the error of its approximation in memory for the next step.
    """
    if refusal := _refusal(strategy, here):
        return inapplicable(strategy, here, refusal)
    job = here.job
    if isinstance(job, ImageJob) or job.adapted is not None:
        return undecided(strategy, here, "the shapes of the trained tensors are not in the table of models")
    parameters = trained_parameters(job)
    error = _FP32_BYTES * parameters
    memory, room = here.plan.chosen.predicted.memory_bytes_per_gpu, here.cluster.memory_bytes_per_rank
    if room is not None and memory.needed + error > room.value:
        missing = gib(memory.needed + error - room.value)
        return inapplicable(
            strategy,
            here,
            f"the error that it keeps needs {gib(error)} per rank, {missing} more than there is",
        )
    factor = low_rank_share(job.workload.model, strategy.figure("rank"), strategy.figure("least_rate"))
    factor *= _FP32_BYTES / sent_bytes(job)
    time = with_traffic(here, factor)
    copies = copying_s(strategy.figure("moved_bytes") * parameters, here.cluster)
    # The two thin matrices and the uncompressed tensors of a bucket travel one after the other.
    buckets = max(1.0, gradient_bytes(job) / constant("ddp_bucket_bytes"))
    copies += buckets * _MORE_MESSAGES * shortest_all_reduce_s(here.cluster)
    return _verdict(
        strategy, here, time, factor, copies, f"the error that it keeps needs {gib(error)} per rank"
    )


def low_rank_share(model: TransformerModel, rank: float, least_rate: float) -> float:
    """Return the part of the gradients' elements that travels if matrices have this rank."""
    tables = [(model.vocab, model.hidden)] * (1 if model.tied_embeddings else 2)
    matrices = [(float(rows), float(columns), 1.0) for rows, columns in tables]
    vectors = 0.0
    for block in blocks_of(model):
        vectors += block.count * block.vector_parameters
        matrices += [
            (float(product.outputs), float(product.inputs), float(block.count * product.experts))
            for product in block.products
        ]
    whole = sum(rows * columns * number for rows, columns, number in matrices) + vectors
    sent = vectors
    for rows, columns, number in matrices:
        thin = rank * (rows + columns)
        sent += number * (thin if thin * least_rate < rows * columns else rows * columns)
    return sent / whole


def shortest_all_reduce_s(cluster: Cluster) -> float:
    """Return the seconds of an all-reduce of one number over all ranks."""
    return collective_time_s("all_reduce", _FP32_BYTES, world_group(cluster), cluster)


def with_traffic(here: Situation, factor: float) -> TimeBreakdown:
    """Return the time of a step if gradients have `factor` times their bytes on the wire.

    If ranks send nothing but gradients, this equals the time with links that are 1 / `factor` times as fast.
    Otherwise `factor` is ignored: gradients are reduced in 16 bits, and all other traffic keeps its size.
    """
    job = here.job
    if here.is_plain:
        faster = with_node_links(job.cluster, 1.0 / factor)
        faster = with_figures(faster, 1.0 / factor, "inter_bus_bandwidth_bytes_per_s")
        return time_of(job._replace(cluster=faster))
    stack = msgspec.structs.replace(job.stack, reduced_bytes=_HALF_BYTES)
    return time_of(job._replace(stack=stack))


def _refusal(strategy: Strategy, here: Situation) -> str:
    chosen = here.plan.chosen
    if here.cluster.world_size == 1:
        return "there is one rank, so no gradient travels"
    if chosen.sharding not in strategy.shardings or (not here.is_plain and "zero3" not in strategy.shardings):
        return f"it needs the whole gradient on every rank, and the plan is {chosen.strategy}"
    return missing_setting(strategy, here)


def _verdict(
    strategy: Strategy, here: Situation, time: TimeBreakdown, factor: float, cost_s: float, *more: str
) -> Verdict:
    exposed = time.exposed_communication
    if isinstance(exposed, Unknown):
        return undecided(strategy, here, exposed)
    before = here.exposed_s
    because = (
        f"gradients have {percent(factor)} of their bytes on the wire: exposed communication "
        f"{duration(before)} -> {duration(exposed)}"
    )
    casts = f"compressing and restoring takes {duration(cost_s)}" if cost_s else ""
    return saving(strategy, here, before - exposed - cost_s, because, *filter(None, [casts, *more]))
