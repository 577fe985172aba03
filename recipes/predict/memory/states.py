"""Weights, gradients and optimizer states of one rank."""

from typing import NamedTuple

from recipes.job.workload import (
    FULL_PRECISIONS,
    NARROW_PRECISIONS,
    QUANTISED,
    STATE_BYTES,
    WITHOUT_MASTERS,
)
from recipes.predict.implementations import Compute
from recipes.predict.memory.stages import Stage
from recipes.predict.shares import adapter_parameters
from recipes.predict.training_job import TransformerJob

_FP32 = 4.0
_CONSTANTS = {4: 4.0 / 64, 8: 4.0 / 1024, 16: 0.0}
"""Bytes of quantisation constants per weight: one fp32 value for each 64 weights in nf4, one for each row in
int8.
"""
_DOUBLE_CONSTANTS = 1.0 / 64 + 4.0 / (64 * 256)
"""The same in nf4 with double quantisation: one byte for each 64 weights, and an fp32 value for each 256 of
these bytes (arXiv 2305.14314, section 3).
"""


class PerParameter(NamedTuple):
    """Bytes for one trained parameter before sharding."""

    weight: float
    gradient: float
    optimizer: float
    """Bytes of optimizer states, including the fp32 master copy if there is one."""


class States(NamedTuple):
    """Bytes of training states on one rank."""

    weights: float
    gradients: float
    optimizer: float
    trained: float
    """Parameters that are trained on this rank, before data-parallel sharding."""
    updated: float
    """Parameters that this rank's optimizer step updates."""
    each: PerParameter


def per_parameter(job: TransformerJob) -> PerParameter:
    """Return the bytes per parameter, which depend on what the stack keeps.

    A stack keeps 16-bit weights with fp32 masters, fp32 weights, or only 16-bit weights (arXiv 1910.02054,
    section 3.1).
    """
    optimizer = job.workload.optimizer
    states = STATE_BYTES[optimizer]
    if job.workload.precision in FULL_PRECISIONS:
        return PerParameter(_FP32, _FP32, states)
    if is_pure(job):
        return PerParameter(2.0, 2.0, states if optimizer in QUANTISED else states / 2)
    if job.stack.memory.mixed_states == "master":
        return PerParameter(2.0, float(job.stack.gradient_bytes), _FP32 + states)
    return PerParameter(_FP32, _FP32, states)


def is_pure(job: TransformerJob) -> bool:
    """Return whether trained weights and their gradients have 16 bits, and no fp32 copy of them exists."""
    workload, candidate, memory = job.workload, job.candidate, job.stack.memory
    if workload.precision in FULL_PRECISIONS:
        return False
    if workload.optimizer in WITHOUT_MASTERS:
        return True
    if not job.trains_weights:
        return memory.pure_adapters and workload.pure_weights
    sharded = candidate.sharding_stage == "zero3" and candidate.degrees.fsdp > 1
    pure = workload.pure_weights or memory.mixed_states == "pure"
    return pure and not (sharded and memory.shards_in_fp32)


def compute_of(job: TransformerJob) -> Compute:
    """Return the number formats of the forward pass."""
    if job.workload.precision in FULL_PRECISIONS:
        return "fp32"
    if job.workload.precision in NARROW_PRECISIONS:
        return "fp8"
    if job.stack.memory.raises_stream and raises_tables(job):
        return "raised"
    if job.candidate.sharding_stage == "zero3" or not job.trains_weights:
        return "cast"
    return "autocast" if per_parameter(job).weight == _FP32 else "cast"


def raises_tables(job: TransformerJob) -> bool:
    """Return whether all weights except the quantised ones are raised to fp32.

    Sharded parameters must all have one type, so they are not raised (trl, SFTTrainer: sharded QLoRA;
    fms-acceleration, accelerated-peft: equal peaks with and without under FSDP).
    """
    return job.is_quantised and job.stack.memory.raises_tables and job.candidate.sharding_stage != "zero3"


def autocasts_loss(job: TransformerJob) -> bool:
    """Return whether autocast computes the loss in fp32 from 16-bit logits.

    Autocast does so under mixed precision, but not if everything has 16 bits. Adapters of quantised weights
    compute in the 16-bit type that these weights are cast to, unless everything else is in fp32 and a trainer
    uses autocast.
    """
    if job.workload.base_bits < 16:
        return job.stack.memory.raises_stream and not job.stack.memory.own_loss
    return not job.workload.pure_weights


def frozen_bytes(job: TransformerJob) -> float:
    """Return the bytes of one frozen linear weight under adapters, without its quantisation constants."""
    workload = job.workload
    if workload.base_bits == 16 and workload.precision in FULL_PRECISIONS:
        return _FP32
    is_narrow = workload.base_bits == 16 and workload.precision in NARROW_PRECISIONS
    if is_narrow and job.stack.memory.frozen_in_fp8:
        return 1.0
    return workload.base_bits / 8


def constant_bytes(job: TransformerJob) -> float:
    """Return the bytes of quantisation constants per frozen linear weight."""
    bits = job.workload.base_bits
    return _DOUBLE_CONSTANTS if bits == 4 and job.stack.memory.double_quantised else _CONSTANTS[bits]


def shards_constants(job: TransformerJob) -> bool:
    """Return whether ranks share quantisation constants as they share quantised weights."""
    return job.candidate.sharding_stage == "zero3" and job.stack.memory.shards_constants


def states_of(job: TransformerJob, stage: Stage) -> States:
    """Return the states that the rank keeps between steps.

    Expert weights are sharded over the ranks that have the same experts, other weights over all data-parallel
    ranks. If the optimizer steps within the backward pass, only one tensor's gradient exists at a time. Paged
    states are managed by the driver, not by the allocator. Offloaded states are in the host's memory; so are
    sharded gradients and offloaded weights.
    """
    workload, candidate = job.workload, job.candidate
    held = _held(job, stage)
    if workload.pages_states:
        held = held._replace(optimizer=0.0)
    if workload.optimizer_step == "in-backward":
        largest_gradient = held.each.gradient * max(stage.table, stage.head, stage.largest.linear)
        held = held._replace(gradients=min(held.gradients, largest_gradient))
    if not candidate.offload:
        return held
    # Constants that FSDP does not know stay on the GPU.
    stays = job.adapted is not None and not shards_constants(job)
    constants = _constants(job, stage) if stays else 0.0
    return held._replace(
        weights=constants if candidate.offload_weights else held.weights,
        gradients=0.0 if candidate.sharding_stage in ("zero2", "zero3") else held.gradients,
        optimizer=0.0,
        updated=0.0,
    )


def _constants(job: TransformerJob, stage: Stage) -> float:
    """Return the bytes of all quantisation constants of the stage."""
    return (stage.linear + stage.expert) * constant_bytes(job)


def _held(job: TransformerJob, stage: Stage) -> States:
    each = per_parameter(job)
    degrees = job.candidate.degrees
    replicas = degrees.dp * degrees.fsdp * degrees.cp
    folded = degrees.tp / (degrees.ep * stage.largest.expert_tensor)
    expert_replicas = max(1.0, replicas * folded)
    sharding = job.candidate.sharding_stage
    # Context-parallel ranks have the same weights, so they shard them too.
    shards = degrees.fsdp * degrees.cp if sharding == "zero3" else 1
    expert_shards = max(1.0, shards * folded) if sharding == "zero3" else 1.0
    stepped = {"none": 1, "zero1": replicas, "zero2": replicas, "zero3": shards}[sharding]
    stepped_expert = {
        "none": 1.0,
        "zero1": expert_replicas,
        "zero2": expert_replicas,
        "zero3": expert_shards,
    }[sharding]
    if job.adapted is not None:
        rank, targets = job.adapter_rank, job.adapted
        adapters = sum(count * adapter_parameters(block, rank, targets) for count, block in stage.blocks)
        trained = adapters / degrees.tp
        base = frozen_bytes(job)
        rest = _FP32 if raises_tables(job) else job.wide_bytes
        frozen = (stage.linear + stage.expert) * base + (stage.other + stage.table + stage.head) * rest
        constants = _constants(job, stage) / (shards if shards_constants(job) else 1)
        return States(
            weights=frozen / shards + constants + trained * each.weight / shards,
            gradients=trained * each.gradient / (shards if sharding != "zero2" else stepped),
            optimizer=trained * each.optimizer / stepped,
            trained=trained,
            updated=trained / stepped,
            each=each,
        )
    halved = {"none": (1, 1.0), "zero1": (1, 1.0)}.get(sharding, (stepped, stepped_expert))
    return States(
        weights=(stage.dense / shards + stage.expert / expert_shards) * each.weight,
        gradients=(stage.dense / halved[0] + stage.expert / halved[1]) * each.gradient,
        optimizer=(stage.dense / stepped + stage.expert / stepped_expert) * each.optimizer,
        trained=stage.dense + stage.expert,
        updated=stage.dense / stepped + stage.expert / stepped_expert,
        each=each,
    )
