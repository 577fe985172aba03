"""Peak memory of a rank that trains an image model."""

from __future__ import annotations

from recipes.constants import constant
from recipes.job.workload import STATE_BYTES
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.parameters import memory_interval, parameter
from recipes.predict.training_job import ImageJob


def vision_memory(job: ImageJob) -> MemoryBreakdown:
    """Return the peak memory of a rank, bytes: at the start of the backward pass, with all that was saved."""
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
    # What is read and written by the largest layers, and cuDNN's workspace.
    workspace, buckets = parameter("vision.workspace_bytes"), 4.0 * model.parameters
    if cluster.device == "cpu":  # the reference workload, whose gradients are views of the buckets
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
    if cluster.memory_bytes_per_rank is not None:  # blocks that are kept are given back when memory is short
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
