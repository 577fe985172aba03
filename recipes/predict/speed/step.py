"""Duration of one optimizer step by term.

The terms are computation, visible communication, pipeline bubble, optimizer and overhead.
"""

import math
from typing import NamedTuple

from probes.base.record import Unknown
from probes.catalogue.hardware import load_catalogue
from recipes.job.candidate import Candidate
from recipes.job.models.blocks import blocks_of
from recipes.job.workload import steps_all_at_once, traffic_share
from recipes.machine.cluster import PCIE_LANE_BYTES_PER_S
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.memory.states import is_pure
from recipes.predict.parameters import parameter
from recipes.predict.shares import Held, held_by
from recipes.predict.speed.collectives import Collective, collective_time_s, unknown_link, world_group
from recipes.predict.speed.communication import (
    beside,
    boundary_s,
    exposed_share,
    gradients_s,
    group_of,
    shards_s,
)
from recipes.predict.speed.layers import Rates, computation_of
from recipes.predict.speed.passes import LeastPasses, fullest_part, passes_key, passes_of
from recipes.predict.stacks import on_cpu
from recipes.predict.training_job import ByKey, TransformerJob

_on_cpu = ByKey(on_cpu)


def step_time(job: TransformerJob) -> TimeBreakdown | Unknown:
    """Return the time of one optimizer step on the slowest rank.

    `low` and `high` are the total until an interval is known. The result is Unknown if the cluster lacks a
    rate or a latency that the step needs.
    """
    candidate, cluster = job.candidate, job.cluster
    if cluster.device == "cpu":
        job = job._replace(stack=_on_cpu(job.stack, (id(job.stack),)))
    replicated = candidate.sharding_stage == "none"
    measured: tuple[Collective, ...] = ("all_reduce",) if replicated else ("all_gather", "reduce_scatter")
    unknown = _unknown_link((cluster, measured), (id(cluster), replicated))
    if unknown is not None:
        computation = computation_of(job)
        return computation if isinstance(computation, Unknown) else unknown
    stage = _stage_of(job)
    if isinstance(stage, Unknown):
        return stage
    degrees = candidate.degrees
    forward, backward, computing, exposed = stage.forward, stage.backward, stage.computing, stage.exposed
    micro_batches = candidate.grad_accum
    each, once = _sharding(job, stage.held, stage.layers, forward=forward, backward=backward)
    boundary, filling = boundary_s(job, computing)
    copies, optimizer = _stepped(job, stage.held, stage.rates, forward=forward, backward=backward)
    each += copies
    waits = candidate.grad_accum if candidate.schedule == "layers" else 1.0 / degrees.vp
    # ZB-H1 computes the gradients of weights in the gaps of the pipeline. The gaps shrink by twice this time:
    # the work leaves the critical path and fills the gaps.
    filled = 2.0 * stage.weights / stage.even if candidate.schedule == "zero-bubble" else 0.0
    # While a pipeline fills and drains, a micro-batch passes every other stage once; these have no head.
    bubble = (degrees.pp - 1) * waits * max(0.0, forward + backward + exposed + each - filled)
    waiting = parameter("time.step_overhead_s", cluster.device) + (
        micro_batches * parameter("time.micro_batch_overhead_s", cluster.device)
    )
    slowest = _slowest_rank(cluster)
    compute = micro_batches * computing
    talk_total = micro_batches * (exposed + each + boundary) + once + filling
    work = compute + talk_total + bubble + optimizer
    overhead = waiting + work * (slowest - 1.0)
    total = work + overhead
    return TimeBreakdown(
        total=total,
        compute=compute,
        exposed_communication=talk_total,
        bubble=bubble,
        optimizer=optimizer,
        overhead=overhead,
        low=total,
        high=total,
        **{name: micro_batches * value / stage.even for name, value in stage.parts.items()},
    )


@ByKey
def _unknown_link(cluster_and_measured: tuple[Cluster, tuple[Collective, ...]]) -> Unknown | None:
    cluster, measured = cluster_and_measured
    return unknown_link(world_group(cluster), cluster, *measured)


def _slowest_rank(cluster: Cluster) -> float:
    """Return the time of the slowest rank divided by the mean; all ranks wait for the slowest.

    The largest of n independent delays with a normal distribution is about sqrt(2 ln n) standard deviations
    above the mean.
    """
    return 1.0 + parameter("time.straggler") * math.sqrt(2.0 * math.log(cluster.nodes))


def least_passes(job: TransformerJob) -> LeastPasses:
    """Return the work of one micro-batch with the job's degrees, for any number of stages and replicas."""
    cluster = job.cluster
    if cluster.device == "cpu":
        job = job._replace(stack=_on_cpu(job.stack, (id(job.stack),)))
    if _unknown_link((cluster, ()), (id(cluster),)) is not None:
        return LeastPasses()
    passes = passes_of(job, passes_key(job))
    return LeastPasses() if isinstance(passes, Unknown) else LeastPasses(passes, _slowest_rank(cluster))


class _StageTime(NamedTuple):
    """Seconds of one micro-batch on the fullest stage, without messages between stages and replicas."""

    forward: float
    backward: float
    weights: float
    """Part of the backward pass in the gradients of weights, over all stages."""
    computing: float
    """Both passes, with the head if it is on this stage."""
    exposed: float
    """Visible communication inside the blocks."""
    layers: float
    held: Held
    rates: Rates
    even: float
    """Number by which times over all stages are divided to get the time of the fullest stage."""
    parts: dict[str, float]
    """Parts of `computing` over all stages, by the field of `TimeBreakdown`."""


def _stage_of(job: TransformerJob) -> _StageTime | Unknown:
    """Return the time of one micro-batch on a stage; Unknown if the cluster has no rate for the workload.

    Layouts that differ only in replicas share the result. The links of the cluster must be known.
    """
    degrees, passes = job.candidate.degrees, passes_key(job)
    return _stage_time((job, passes), (passes, degrees.pp, degrees.vp))


@ByKey
def _stage_time(job_and_key: tuple[TransformerJob, tuple[object, ...]]) -> _StageTime | Unknown:
    job, key = job_and_key
    degrees, passes = job.candidate.degrees, passes_of(job, key)
    if isinstance(passes, Unknown):
        return passes
    part, stages = fullest_part(passes, degrees.pp, degrees.vp), degrees.pp
    return _StageTime(
        forward=part.forward,
        backward=part.backward,
        weights=passes.weights,
        computing=part.forward + part.backward + part.root,
        exposed=part.exposed,
        layers=max(1.0, passes.layers / part.even),
        held=_held(job, (id(job.basis), id(job.stack), degrees.tp, degrees.ep, stages)),
        rates=passes.rates,
        even=part.even,
        parts=passes.parts | {"head": part.root * part.even},
    )


@ByKey
def _held(job: TransformerJob) -> Held:
    return held_by(job, blocks_of(job.workload.model))


def _sharding(
    job: TransformerJob, held: Held, layers: float, *, forward: float, backward: float
) -> tuple[float, float]:
    """Return the visible data-parallel communication time: of each micro-batch, and once per step.

    A stage has `layers` blocks.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    degrees = candidate.degrees
    if candidate.sharding_stage != "zero3":
        return 0.0, gradients_s(job, held, forward_s=forward, backward_s=backward)
    gathered = stack.keeps_gathered(candidate)
    each = last = shards_s(job, held, layers, forward_s=forward, backward_s=backward, regathers=not gathered)
    if gathered:
        each = 0.0
    elif stack.defers_reduction(candidate):
        each = shards_s(job, held, layers, forward_s=forward, backward_s=backward, reduces=False)
    # These are the ranks with the same shard, one for each copy of the model.
    replicas = group_of(degrees.dp, degrees.fsdp * degrees.cp * degrees.tp, cluster)
    size = (
        (held.dense + held.expert) * held.trained_share * stack.travelling_bytes / (degrees.fsdp * degrees.cp)
    )
    time = collective_time_s("all_reduce", size, replicas, cluster)
    return each, last - each + beside(time, backward, exposed_share(cluster, "time.gradient_exposed"))


def _stepped(
    job: TransformerJob, held: Held, rates: Rates, *, forward: float, backward: float
) -> tuple[float, float]:
    """Return the time of copies to and from host memory per micro-batch, and the time of the optimizer on
    host or GPU.
    """
    if not job.candidate.offload:
        return 0.0, _optimizer(job, held, rates)
    shards = _shards(job.candidate)
    stored = held.dense / shards + held.expert / _expert_shards(held, job.candidate, shards)
    return offloaded_s(
        job, stored=stored, trained=stored * held.trained_share, forward_s=forward, backward_s=backward
    )


def _shards(candidate: Candidate) -> int:
    """Return the number of ranks that share optimizer states.

    These are all data-parallel ranks; with HSDP they are the ranks of one fully sharded replica. The result
    is 1 if nothing is sharded.
    """
    degrees = candidate.degrees
    replicas = 1 if candidate.sharding_stage == "zero3" else degrees.dp
    return replicas * degrees.fsdp * degrees.cp if candidate.sharding_stage != "none" else 1


def _expert_shards(held: Held, candidate: Candidate, shards: int) -> int:
    """Return the number of ranks that share the states of one expert."""
    degrees = candidate.degrees
    return max(1, shards * degrees.tp // (degrees.ep * held.expert_tensor)) if shards > 1 else 1


def _optimizer(job: TransformerJob, held: Held, rates: Rates) -> float:
    """Return the time of the optimizer's memory traffic, the norm of the gradients, and Muon's iterations.

    The sharding determines which ranks share the states.
    """
    workload, candidate, cluster, stack = job.workload, job.candidate, job.cluster, job.stack
    shards = _shards(candidate)
    updated = held.dense / shards + held.expert / _expert_shards(held, candidate, shards)
    # An optimizer that keeps temporaries runs one operation at a time on all tensors; a fused optimizer reads
    # each tensor once. Small kernels are not faster with 16 bits: runs with fp32 and with 16 bits gave the
    # same figure for the unfused optimizer.
    whole = stack.memory.step_copies and steps_all_at_once(workload)
    share = traffic_share(workload.optimizer, pure=not whole and is_pure(job))
    traffic = parameter("time.optimizer_bytes", cluster.device, "foreach" if whole else "") * share * updated
    norm = (
        stack.gradient_bytes
        * (held.dense + held.expert)
        / (shards if candidate.sharding_stage in ("zero2", "zero3") else 1)
    )
    turning = _orthogonal_s(job, held, rates, shards) if workload.optimizer == "muon" else 0.0
    return (traffic + 2 * norm) * held.trained_share / rates.memory + turning


def _orthogonal_s(job: TransformerJob, held: Held, rates: Rates, shards: int) -> float:
    """Return the time of Muon's Newton-Schulz iterations on every matrix of a layer.

    An iteration computes X X^T, its square, and the product with X, in 16 bits. For an m x n matrix, where m
    is the shorter side, an iteration needs 4 m^2 n + 2 m^3 FLOPs (KellerJordan/Muon, muon.py). Ranks that
    share optimizer states share the matrices.
    """
    candidate = job.candidate
    degrees = candidate.degrees
    flops = 0.0
    for block in blocks_of(job.workload.model):
        for product in block.products:
            short, long = sorted((float(product.inputs), float(product.outputs)))
            ranks = degrees.tp * shards
            if product.experts > 1:
                ranks = degrees.ep * held.expert_tensor * _expert_shards(held, candidate, shards)
            flops += block.count * product.experts * (4.0 * short * short * long + 2.0 * short**3) / ranks
    return (
        parameter("time.orthogonal_iterations")
        * flops
        / degrees.pp
        * held.trained_share
        / rates.wide.flops_per_s
    )


def offloaded_s(
    job: TransformerJob, *, stored: float, trained: float, forward_s: float, backward_s: float
) -> tuple[float, float]:
    """Return the visible seconds per micro-batch and per step that offloading of states costs.

    `stored` is the number of parameters of one rank's shard, `trained` the number that the host updates. In
    each step the host runs the optimizer. It then uploads the updated weights, unless weights are offloaded
    too.

    Gradients are copied to the host during the backward pass. From the second micro-batch on, the sum so far
    is copied to the GPU first, added to, and copied back. This memory is not pinned by default, so the host
    waits (DeepSpeed, stage3.py, partition_grads). Offloaded weights are copied to the GPU for the forward
    pass and again for the backward pass.
    """
    candidate, cluster, element = job.candidate, job.cluster, job.wide_bytes
    link = _link_bytes_per_s(cluster)
    exposed = exposed_share(cluster, "time.shard_exposed")
    down = element * trained / link
    each = 2.0 * down if candidate.grad_accum > 1 else beside(down, backward_s, exposed)
    host_s = trained * cluster.ranks_per_node * parameter("time.host_optimizer_s")
    if not candidate.offload_weights:
        return each, element * trained / link + host_s
    up = (element if job.trains_weights else job.workload.base_bits / 8) * stored / link
    return each + beside(up, forward_s, exposed) + beside(up, backward_s, exposed), host_s


def _link_bytes_per_s(cluster: Cluster) -> float:
    """Return the bytes/s in each direction when all GPUs of the node copy.

    If the catalogue states the bandwidth of the GPU's link to the host, the rate is a fixed share of it.
    Otherwise it is the rate of a GPU on PCIe 4 with 16 lanes, scaled by the bandwidth of the GPU's PCIe link;
    for a GPU outside the catalogue it is not scaled.
    """
    usual = parameter("time.host_link_bytes_per_s")
    row = load_catalogue().gpu(cluster.gpu) if cluster.gpu else None
    if row is None:
        return usual
    if row.host_link_bytes_per_s:
        return row.host_link_bytes_per_s * parameter("time.module_link_share")
    lanes = PCIE_LANE_BYTES_PER_S.get(row.pcie_generation, PCIE_LANE_BYTES_PER_S[4]) * row.pcie_width
    return usual * lanes / (16 * PCIE_LANE_BYTES_PER_S[4])
