"""Memory and time of a training step on images; the time is scaled by measurements of this machine.

As for transformers, the modelled time is scaled by the ratio of measured to modelled time of the nearest
measured step in the same precision. The step was measured with a reference network or the planned model.
"""

from typing import cast

import msgspec

from probes.base.record import Unknown, map_known
from probes.bench.resnet import (
    RESNET_50,
    SMALL,
    Resnet,
    convolutions,
    forward_flops,
    parameter_count,
    training_flops,
)
from recipes.constants import constant
from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import STATE_BYTES, Precision, VisionModel, VisionWorkload
from recipes.machine.cluster_records import Cluster, ImageAnchor
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown, scaled_terms
from recipes.predict.candidate_prediction import as_measured
from recipes.predict.parameters import memory_interval, parameter
from recipes.predict.speed.image_speed import vision_time
from recipes.predict.stacks import REFERENCE, load_stacks
from recipes.predict.training_job import ImageJob, image_job


def predict_images(job: ImageJob) -> TimeBreakdown | Unknown:
    """Return `vision_time`, scaled by measurements on this machine in the same precision if there are any."""
    time = vision_time(job)
    usable = [
        anchor
        for anchor in job.cluster.image_anchors
        if anchor.precision == job.workload.precision and anchor.model in (*NETWORKS, job.workload.model.id)
    ]
    if isinstance(time, Unknown) or not usable:
        return time
    nearest = min(usable, key=lambda anchor: _distance(anchor, job))
    modelled = modelled_image_anchor(nearest, job.cluster, job.workload.model)
    if isinstance(modelled, Unknown):
        return time
    factor = nearest.step_time_s / modelled
    ends = {name: cast("float", getattr(time, name)) * factor for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, **scaled_terms(time, factor), **ends)


def _distance(anchor: ImageAnchor, job: ImageJob) -> tuple[bool, bool, float]:
    """Return a sort key that puts the most similar step first: by ranks, then by model, then by pixels of a
    micro-batch.
    """
    work = job.workload
    pixels, measured = (
        job.candidate.micro_batch * work.image_size**2,
        anchor.micro_batch * anchor.image_size**2,
    )
    return (
        anchor.world_size != job.cluster.world_size,
        anchor.model != work.model.id,
        max(pixels, measured) / max(1, min(pixels, measured)),
    )


def modelled_image_anchor(anchor: ImageAnchor, cluster: Cluster, planned: VisionModel) -> float | Unknown:
    """Return the modelled time of a measured step of a reference network, or of the user's program."""
    ranks = anchor.world_size
    batch = anchor.micro_batch * ranks
    work = VisionWorkload(
        model=reference_vision_model(NETWORKS[anchor.model], anchor.image_size)
        if anchor.model in NETWORKS
        else planned,
        image_size=anchor.image_size,
        global_batch=batch,
        precision=cast("Precision", anchor.precision),
    )
    candidate = Candidate(
        strategy="ddp",
        degrees=Degrees(dp=ranks),
        micro_batch=anchor.micro_batch,
        grad_accum=1,
        global_batch=batch,
        activation_checkpointing="none",
        precision=anchor.precision,
    )
    then = as_measured(cluster, ranks, anchor.threads)
    time = vision_time(image_job(work, candidate, then, load_stacks()[REFERENCE]))
    return map_known(time, lambda time: cast("float", time.total))


NETWORKS = {network.id: network for network in (RESNET_50, SMALL)}
"""Networks that benchmark train-cnn trains, by id."""
_NORM_PASSES = 8.0
"""Elements moved per output of a batch norm.

The forward pass reads one tensor twice and writes one; the backward pass reads two tensors twice and writes
one.
"""
_ACTIVATION_PASSES = 5.0
"""Elements moved per output of an activation that works in place."""
_ADDITION_PASSES = 6.0
"""Elements moved per output of adding the shortcut.

Two are read and one is written; the sum of the two gradients of the input costs the same.
"""
_POOL_PASSES = 2.5
_CONVOLUTION_KERNELS = 5
"""Kernels of convolution and batch norm, forward, and of the gradients of input, weights and norm."""
_ACTIVATION_KERNELS = 2
_ADDITION_KERNELS = 2


def reference_vision_model(network: Resnet, image_size: int) -> VisionModel:
    """Return the counts for one image, by operator.

    The number of elements that an operator moves is the number of its outputs, multiplied by how often a step
    reads and writes them. For convolutions, the elements of inputs and outputs are counted.
    """
    moved = pointwise = saved = 0.0
    kernels = 0
    before = None
    entered = image_size
    for layer in convolutions(network, image_size):
        outputs = float(layer.outputs * layer.size**2)
        is_stem = before is None
        is_shortcut = (
            before is not None and before.kernel == layer.kernel == 1 and layer.outputs == before.outputs
        )
        is_wide = layer.outputs > layer.inputs and layer.kernel == 1 and not is_shortcut
        if is_stem:
            size = image_size
        elif is_shortcut:
            size = entered
        else:
            size = before.size if before is not None and layer.kernel > 1 else layer.size
        if not is_stem and not is_shortcut and not is_wide and layer.kernel == 1:
            entered = layer.size
        # Elements of the forward and the backward pass; no gradient of the images is computed.
        moved += 2.0 * outputs + (2.0 if is_stem else 3.0) * layer.inputs * float(size) ** 2
        pointwise += _NORM_PASSES * outputs
        kernels += _CONVOLUTION_KERNELS
        # The outputs of convolutions are kept for the norms, and the outputs of activations for the next
        # convolution.
        saved += outputs
        if not is_shortcut:
            pointwise += _ACTIVATION_PASSES * outputs
            kernels += _ACTIVATION_KERNELS
            saved += outputs
        if is_wide:
            pointwise += _ADDITION_PASSES * outputs
            kernels += _ADDITION_KERNELS
        if is_stem:
            pointwise += _POOL_PASSES * outputs
            saved += 0.75 * outputs  # the pooled quarter with its indices of 8 bytes
        before = layer
    return VisionModel(
        id=network.id,
        title=network.id,
        parameters=parameter_count(network),
        image_size=image_size,
        forward_flops=float(forward_flops(network, image_size)),
        dense_flops=float(training_flops(network, image_size)),
        grouped_flops=0.0,
        convolution_elements=moved,
        matrix_elements=0.0,
        depthwise_elements=0.0,
        pointwise_elements=pointwise,
        saved_elements=saved,
        operators=kernels,
        source="probes/bench/resnet.py",
        date="2026-11",
    )


def vision_memory(job: ImageJob) -> MemoryBreakdown:
    """Return the peak memory of a rank in bytes.

    The peak is at the start of the backward pass, when all activations are saved.
    """
    candidate, cluster, model, element_bytes = job.candidate, job.cluster, job.model, job.element_bytes
    half = element_bytes == 2
    stage = candidate.sharding_stage
    fully = stage == "zero3"
    shards = candidate.degrees.fsdp if fully else candidate.degrees.dp * candidate.degrees.fsdp
    weights = 4.0 * model.parameters / (shards if fully else 1)
    # Mixed precision keeps casts of the weights until the end of the forward pass; FSDP gathers them unit by
    # unit.
    casts = 2.0 * model.parameters if half else 0.0
    if fully:
        casts = float(element_bytes * model.gathered_parameters) if half or shards > 1 else 0.0
    gradients = 4.0 * model.parameters / (shards if stage in ("zero2", "zero3") else 1)
    optimizer = STATE_BYTES[job.workload.optimizer] * model.parameters / (1 if stage == "none" else shards)
    activations = candidate.micro_batch * model.saved_elements * element_bytes
    # Inputs and outputs of the largest layers, and cuDNN's workspace.
    workspace, buckets = parameter("vision.workspace_bytes"), 4.0 * model.parameters
    if cluster.device == "cpu":  # in the reference workload gradients are views of the buckets
        workspace, buckets = (
            parameter("vision.live_share") * activations,
            min(constant("ddp_bucket_bytes"), buckets),
        )
    if fully:  # gradients of a unit before they are reduced
        buckets = float(element_bytes * model.gathered_parameters)
    buffers = casts + workspace + (buckets if cluster.world_size > 1 else 0.0)
    allocated = weights + gradients + optimizer + activations + buffers
    kept = parameter("memory.fragmentation") * activations
    overhead = parameter("vision.context_bytes") if cluster.device == "cuda" else 0.0
    high = memory_interval("allocated").high if cluster.device == "cuda" else 1.0
    reserved = allocated + (kept if cluster.device == "cuda" else 0.0)
    # The allocator returns the blocks that it keeps when memory is short.
    if cluster.memory_bytes_per_rank is not None:
        reserved = max(allocated, min(reserved, cluster.memory_bytes_per_rank.value - overhead))
    return MemoryBreakdown(
        total=reserved + overhead,
        parameters=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=activations,
        logits=0.0,
        buffers=buffers,
        overhead=reserved - allocated + overhead,
        allocated=allocated,
        reserved=reserved,
        upper=max(allocated * high, allocated + kept) + overhead,
        margin=allocated * (high - 1.0),
        needed=allocated + overhead,
    )
