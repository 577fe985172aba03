"""Temporary copies of parameters and gradients: gathered windows, buckets, optimizer temporaries."""

from typing import NamedTuple

from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.workload import steps_all_at_once
from recipes.predict.memory.stages import Stage
from recipes.predict.memory.states import States, constant_bytes, frozen_bytes, is_pure, shards_constants
from recipes.predict.stacks import Stack
from recipes.predict.training_job import TransformerJob

_FP32 = 4.0


class Buffers(NamedTuple):
    """Bytes at each moment of a step."""

    loss: float
    backward: float
    end: float
    step: float


def buffers_of(job: TransformerJob, stage: Stage, states: States) -> Buffers:
    """Return the buffers that exist in addition to states and activations."""
    candidate, stack = job.candidate, job.stack
    # The optimizer updates fp32 masters if there are some.
    has_masters = stack.memory.mixed_states == "master" and states.each.optimizer > _FP32
    element = _FP32 if has_masters and not is_pure(job) else states.each.weight
    step = states.updated * element * stack.memory.step_copies if steps_all_at_once(job.workload) else 0.0
    step += _raised(candidate, stack, states)
    sharding, degrees = candidate.sharding_stage, candidate.degrees
    if sharding == "zero3" and (degrees.fsdp > 1 or candidate.strategy == "fsdp"):
        return _windows(job, stage, step)
    if degrees.dp * degrees.fsdp * degrees.cp == 1:
        return Buffers(0.0, 0.0, 0.0, step)
    buckets = 0.0
    own = stack.memory.keeps_gradients or stack.shards_optimizer
    if sharding in ("zero1", "zero2") and (stack.memory.bucket_elements or not own):
        # DeepSpeed: one bucket is filled while the other is reduced; buckets have full size even if few
        # parameters are trained (zero/stage_1_and_2.py)
        buckets = 2 * job.wide_bytes * (stack.memory.bucket_elements or constant("deepspeed_bucket_elements"))
        return Buffers(buckets, buckets, buckets, buckets + step)
    if not stack.memory.keeps_gradients:
        size = states.trained * states.each.gradient
        buckets = 2 * min(constant("ddp_bucket_bytes"), size)
        if sharding == "none" and candidate.grad_accum > 1:
            # Accumulated gradients are separate tensors, in addition to the reducer's buckets.
            buckets += size
            return Buffers(
                buckets - min(2 * constant("ddp_bucket_bytes"), size), buckets, buckets, buckets + step
            )
    return Buffers(0.0, buckets, buckets, step)


def _raised(candidate: Candidate, stack: Stack, states: States) -> float:
    """Return the bytes by which a flat copy of 16-bit gradients and its fp32 copy exceed the freed gradients.

    deepspeed/runtime/zero/stage_1_and_2.py frees the gradients that other ranks update, then flattens its own
    part and casts it to fp32. stage3.py does so for a group of parameters at a time, without freeing
    gradients first.
    """
    at_once = stack.memory.step_elements
    if (
        not at_once
        or candidate.sharding_stage == "none"
        or states.each.gradient == _FP32
        or states.each.optimizer == 0.0
    ):
        return 0.0
    both = states.each.gradient + _FP32
    if candidate.sharding_stage == "zero3":
        return both * min(at_once, states.updated)
    return max(0.0, (states.each.gradient + both) * states.updated - states.gradients)


def _windows(job: TransformerJob, stage: Stage, step: float) -> Buffers:
    """Return the buffers for fully sharded parameters, whose blocks are gathered one by one.

    During a gather, the current block, the prefetched block and the all-gather's staging buffer exist. During
    the backward pass, unsharded gradients and two reduce-scatter inputs exist, in fp32 unless everything has
    16 bits. Embedding, final norm and head form the root unit, which stays gathered from the forward pass to
    the end of the backward pass, when the root's gradients are reduced too. Under a pipeline, torch keeps all
    of the stage's weights gathered instead.

    DeepSpeed fetches single modules instead, up to a number of live parameters, and reduces gradients through
    a flat buffer that exists from the start, even if few parameters are trained
    (deepspeed/runtime/zero/stage3.py).
    """
    candidate, stack, wide = job.candidate, job.stack, job.wide_bytes
    if candidate.degrees.fsdp == 1 and wide == _FP32 and not candidate.offload:
        wide = 0.0  # with one rank, gathered fp32 parameters are only a view
    root = stage.table + stage.head
    if stack.memory.bucket_elements or (candidate.offload and not candidate.offload_weights):
        part = wide if job.trains_weights else frozen_bytes(job)
        live = part * min(constant("deepspeed_live_parameters") + root, stage.dense + stage.expert)
        bucket = wide * (stack.memory.bucket_elements or constant("deepspeed_bucket_elements"))
        return Buffers(loss=live + bucket, backward=live + bucket, end=bucket, step=step + bucket)
    if job.trains_weights:
        layer, part = stage.largest.total, wide
        reduced = 2.0 if is_pure(job) else _FP32
    else:
        layer, reduced, part = stage.largest.total, 0.0, frozen_bytes(job)
        if shards_constants(job):
            part += constant_bytes(job)
    # `kept` counts buffers of a block's size, one of them for gradients; `flying` counts gradients that are
    # being reduced. With weights on the host there are fewer, because gathers wait for the host's slow link.
    kept, flying = (3, 1) if candidate.offload_weights else (4, 2)
    if reduced and stack.keeps_gathered(candidate):
        whole = wide * (stage.dense + stage.expert)
        backward = whole + (wide + flying * reduced) * layer
        return Buffers(loss=whole, backward=backward, end=(2 * wide + reduced) * root, step=step)
    loss = wide * root + part * layer
    if not reduced:
        return Buffers(
            loss=loss, backward=wide * root + (kept - 1) * part * layer, end=wide * root, step=step
        )
    backward = wide * (root + (stage.head or stage.table)) + (kept * part + flying * reduced) * layer
    return Buffers(loss=loss, backward=backward, end=(2 * wide + reduced) * root, step=step)
