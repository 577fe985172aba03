"""Weights, gradients and optimizer states of one rank."""

from __future__ import annotations

from typing import NamedTuple

from recipes.job.optimizers import QUANTISED, STATE_BYTES, WITHOUT_MASTERS
from recipes.job.workload import TransformerModel, Workload
from recipes.planning.plan import Candidate
from recipes.predict.implementations import Compute
from recipes.predict.memory.stages import Stage
from recipes.predict.shares import adapter_parameters
from recipes.predict.stacks import Stack

_FP32 = 4.0
_CONSTANTS = {4: 4.0 / 64, 8: 4.0 / 1024, 16: 0.0}
"""Bytes of quantisation constants per weight: fp32 for each 64 of nf4 (arXiv 2305.14314, not quantised
again); a row for int8.
"""


class PerParameter(NamedTuple):
    """Bytes of one trained parameter before sharding."""

    weight: float
    gradient: float
    optimizer: float
    """With the fp32 master copy, where there is one."""


class States(NamedTuple):
    """Bytes on one rank."""

    weights: float
    gradients: float
    optimizer: float
    trained: float
    """Parameters that are trained on this rank, before data-parallel sharding."""
    updated: float
    """Parameters that this rank's optimizer step updates."""
    each: PerParameter


def per_parameter(workload: Workload, candidate: Candidate, stack: Stack) -> PerParameter:
    """By what the stack keeps: 16-bit weights with fp32 masters, fp32 weights, or 16 bits alone (arXiv
    1910.02054, 3.1).
    """
    states = STATE_BYTES[workload.optimizer]
    habit = stack.memory
    if workload.precision in ("fp32", "tf32"):
        return PerParameter(_FP32, _FP32, states)
    if is_pure(workload, candidate, stack):
        return PerParameter(2.0, 2.0, states if workload.optimizer in QUANTISED else states / 2)
    if habit.mixed_states == "master":
        return PerParameter(2.0, float(stack.gradient_bytes), _FP32 + states)
    return PerParameter(_FP32, _FP32, states)


def is_pure(workload: Workload, candidate: Candidate, stack: Stack) -> bool:
    """Whether what is trained, its gradients and states are all in 16 bits."""
    if workload.precision in ("fp32", "tf32"):
        return False
    if workload.optimizer in WITHOUT_MASTERS:
        return True
    sharded = candidate.sharding_stage == "zero3" and candidate.degrees.fsdp > 1
    pure = workload.pure_weights or (stack.memory.mixed_states == "pure" and workload.tuning == "full")
    return pure and not (sharded and stack.memory.shards_in_fp32)


def compute_of(workload: Workload, candidate: Candidate, stack: Stack) -> Compute:
    """How the forward pass computes."""
    if workload.precision in ("fp32", "tf32"):
        return "fp32"
    if workload.precision in ("fp8", "mxfp8", "nvfp4"):
        return "fp8"
    if stack.memory.raises_stream and raises_tables(workload, candidate, stack):
        return "raised"
    if candidate.sharding_stage == "zero3" or workload.tuning != "full":
        return "cast"
    return "autocast" if per_parameter(workload, candidate, stack).weight == _FP32 else "cast"


def raises_tables(workload: Workload, candidate: Candidate, stack: Stack) -> bool:
    """Whether all that is not quantised is raised to fp32 beside a quantised base. Shards are of one type, so
    theirs is not (trl, SFTTrainer: sharded QLoRA; fms-acceleration, accelerated-peft: equal peaks with and
    without under FSDP).
    """
    quantised = workload.tuning != "full" and workload.base_bits < 16
    return quantised and stack.memory.raises_tables and candidate.sharding_stage != "zero3"


def autocasts_loss(workload: Workload, stack: Stack) -> bool:
    """Whether the loss is computed in fp32 from 16-bit logits: under mixed precision, not where all is 16
    bits.

    Adapters beside quantised weights run in the 16 bits that these are raised to, unless all else stands in
    fp32 and a trainer computes in 16 bits by autocast.
    """
    if workload.base_bits < 16:
        return stack.memory.raises_stream and not stack.memory.own_loss
    return not workload.pure_weights


def frozen_bytes(workload: Workload, stack: Stack) -> float:
    """Of one frozen linear weight under adapters."""
    if workload.base_bits == 16 and workload.precision in ("fp32", "tf32"):
        return _FP32
    if (
        workload.base_bits == 16
        and stack.memory.frozen_in_fp8
        and workload.precision in ("fp8", "mxfp8", "nvfp4")
    ):
        return 1.0
    return workload.base_bits / 8 + _CONSTANTS[workload.base_bits]


def states_of(workload: Workload, candidate: Candidate, stack: Stack, stage: Stage) -> States:
    """What the rank holds between steps. Expert weights are shared by fewer data-parallel ranks than the
    rest.

    A step within the backward pass leaves one tensor's gradient at a time. Paged states are the driver's, not
    the allocator's. Offloaded states live in the host's memory, gradients too where they are sharded, and
    weights where they are.
    """
    held = _held(workload, candidate, stack, stage)
    if workload.pages_states:
        held = held._replace(optimizer=0.0)
    if workload.optimizer_step == "in-backward":
        one = held.each.gradient * max(stage.table, stage.head, stage.largest.linear)
        held = held._replace(gradients=min(held.gradients, one))
    if not candidate.offload:
        return held
    return held._replace(
        weights=0.0 if candidate.offload_weights else held.weights,
        gradients=0.0 if candidate.sharding_stage in ("zero2", "zero3") else held.gradients,
        optimizer=0.0,
        updated=0.0,
    )


def _held(workload: Workload, candidate: Candidate, stack: Stack, stage: Stage) -> States:
    each = per_parameter(workload, candidate, stack)
    degrees = candidate.degrees
    replicas = degrees.dp * degrees.fsdp * degrees.cp
    folded = degrees.tp / (degrees.ep * stage.largest.expert_tensor)
    expert_replicas = max(1.0, replicas * folded)
    sharding = candidate.sharding_stage
    shards = (
        degrees.fsdp * degrees.cp if sharding == "zero3" else 1
    )  # context-parallel ranks hold the same weights and share them
    expert_shards = max(1.0, shards * folded) if sharding == "zero3" else 1.0
    stepped = {"none": 1, "zero1": replicas, "zero2": replicas, "zero3": shards}[sharding]
    stepped_expert = {
        "none": 1.0,
        "zero1": expert_replicas,
        "zero2": expert_replicas,
        "zero3": expert_shards,
    }[sharding]
    if workload.tuning != "full":
        rank, targets = stack.adapter_rank(workload), stack.memory.adapter_targets
        trained = (
            sum(count * adapter_parameters(block, rank, targets) for count, block in stage.blocks)
            / degrees.tp
        )
        wide = 2.0 if workload.precision not in ("fp32", "tf32") else _FP32
        base = frozen_bytes(workload, stack)
        rest = _FP32 if raises_tables(workload, candidate, stack) else wide
        frozen = (stage.linear + stage.expert) * base + (stage.other + stage.table + stage.head) * rest
        return States(
            weights=frozen / shards + trained * each.weight / shards,
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


def model_head_outputs(model: TransformerModel) -> float:
    """Logits per token of the micro-batch."""
    return (model.head_outputs or model.vocab) * model.head_fraction
