"""Peak memory of the fullest rank, term by term.

The model computes a rank's memory at several moments of a step, and reports the largest value:

    loading    weights before they are sharded, if every rank loads all of them
    loss       all activations, the loss's temporaries, the strategy's buffers at the end of the forward pass
    backward   all activations (if layers are recomputed: those that are kept, and one live layer), the
               strategy's windows around one layer
    end        no activations, all gradients, the strategy's buffers when the last gradients are reduced
    step       no activations, all gradients, the optimizer's temporaries
"""

import functools
from typing import NamedTuple

import msgspec

from recipes.constants import constant
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.implementations import (
    Compute,
    Implementation,
    Kept,
    SavedBytes,
    kept_by,
    load_implementations,
    root_kept,
)
from recipes.predict.memory.buffers import Buffers, buffers_of
from recipes.predict.memory.stages import Stage, stages_of
from recipes.predict.memory.states import States, autocasts_loss, compute_of, is_pure, states_of
from recipes.predict.parameters import parameter
from recipes.predict.stacks import BEFORE_FUSED
from recipes.predict.training_job import Keyed, TransformerJob

_FP32 = 4.0
_CHUNKED_BYTES = 2.5
"""Bytes per logit of a loss that is computed in eight chunks.

All logits, and later the gradients in their place, take 16 bits each; one chunk at a time also exists in fp32
(2 + 4 / 8 bytes; pytorch/torchtune, modules/loss/ce_chunked_output_loss.py).
"""


class _Moment(NamedTuple):
    gradients: float
    activations: float
    logits: float
    buffers: float
    total: float


def _moment(gradients: float, activations: float, logits: float, buffers: float) -> _Moment:
    return _Moment(gradients, activations, logits, buffers, gradients + activations + logits + buffers)


class _Peak(NamedTuple):
    weights: float
    optimizer: float
    moment: _Moment
    moments: tuple[_Moment, ...]
    one_size: bool
    """True if all temporary tensors of the loss have the same size."""
    apart: float
    """Bytes of gradients that cannot reuse freed blocks; 0 if they can."""

    @property
    def allocated(self) -> float:
        return self.weights + self.optimizer + self.moment.total


def memory_of(job: TransformerJob) -> MemoryBreakdown:
    """Return the peak memory in bytes of the job's fullest rank over all pipeline stages.

    `needed` decides whether the job fits, and `upper` whether a plan may recommend it. On a GPU `upper`
    includes a margin for the model's error. On a CPU both are equal, and assume that the C library returns no
    memory between the moments.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    stages = stages_of(
        job.workload.model,
        candidate.degrees,
        candidate.grad_accum,
        candidate.schedule,
        unties=stack.memory.unties_head,
    )
    peaks = [_peak(job, stage) for stage in stages]
    most = max(peaks, key=lambda peak: peak.allocated)
    logged = {"fullest": most, "first": peaks[0], "last": peaks[-1]}[stack.memory.logged_stage]
    if cluster.device == "cpu":
        upper = max(_on_cpu(peak).upper for peak in peaks)
        return msgspec.structs.replace(_on_cpu(most), upper=upper, needed=upper)
    context = parameter("memory.context_bytes")
    network = constant("nccl_bytes") if cluster.world_size > 1 else 0.0
    limit = cluster.memory_bytes_per_rank.value if cluster.memory_bytes_per_rank is not None else None
    usable = None if limit is None else limit - context - network
    kind = "varying" if stack.samples_vary(job.workload) else stack.implementation
    reserved, fullest = max(
        ((_reserved(peak, kind, usable), peak) for peak in peaks), key=lambda pair: pair[0]
    )
    held = most.allocated * (1 + parameter("memory.least_fragmentation"))
    needed, margin = (
        held + context + network,
        held * (parameter("interval.peak_memory_high", "allocated") - 1),
    )
    moment = fullest.moment
    return MemoryBreakdown(
        total=reserved + context + network,
        parameters=fullest.weights,
        gradients=moment.gradients,
        optimizer=fullest.optimizer,
        activations=moment.activations,
        logits=moment.logits,
        buffers=moment.buffers,
        overhead=reserved - fullest.allocated + context + network,
        allocated=most.allocated,
        reserved=reserved,
        upper=max(needed + margin, reserved + context + network),
        margin=margin,
        needed=needed,
        logged=logged.allocated / most.allocated,
        logged_figure=stack.memory.logged_figure,
    )


def figure_bytes(breakdown: MemoryBreakdown, figure: str) -> float:
    """Return the memory that a program reports: `allocated`, `reserved` (framework's allocator) or `device`.

    `device` is nvidia-smi's figure. Any other `figure` means the figure that the stack's logs usually show.
    Some stacks log a pipeline stage that is not the fullest. Their logged figures describe this stage, while
    nvidia-smi's figure and an empty `figure` describe the fullest GPU.
    """
    kind = figure if figure in ("allocated", "reserved", "device") else breakdown.logged_figure
    value = {"allocated": breakdown.allocated, "reserved": breakdown.reserved}.get(kind, breakdown.total)
    return value if figure in ("", "device") else value * breakdown.logged


def fuses_attention(job: TransformerJob) -> bool:
    """Return whether attention never writes its scores. The candidate determines this, or else the stack.

    On GPUs that FlashAttention and cuDNN do not support, stacks with hand-written fused kernels write scores,
    but torch uses its memory-efficient kernels.
    """
    stack, stated = job.stack, job.candidate.flash_attention
    if stated is not None:
        return stated
    is_unsupported = stack.model_kernels == "fused" and job.cluster.architecture in BEFORE_FUSED
    return not stack.writes_scores(job.workload.model) and not is_unsupported


def _held_gradients(job: TransformerJob, states: States, compute: Compute) -> float:
    """Return the bytes of gradients that exist before the backward pass.

    These gradients are in buffers, in the reducer's buckets, or from earlier micro-batches.
    """
    candidate, stack, degrees = job.candidate, job.stack, job.candidate.degrees
    if stack.defers_reduction(candidate):
        wide = compute == "fp32" or (stack.shards.adds_in_fp32 and not is_pure(job))
        return states.trained * (_FP32 if wide else 2.0)
    replicated = candidate.sharding_stage == "none" and degrees.dp * degrees.fsdp > 1
    held = stack.memory.keeps_gradients or replicated or candidate.grad_accum > 1 or degrees.pp > 1
    return states.gradients if held else 0.0


def _reserved(peak: _Peak, key: str, limit: float | None) -> float:
    """Return the bytes that the caching allocator reserves, including freed blocks that fit no later tensor.

    The allocator keeps these blocks until memory is short. During the optimizer's step it still has a part of
    the blocks that activations used. Each layer reuses the blocks of the layer before. Temporaries of the
    loss are far larger; if all of them have one size, they reuse each other's blocks. `key` selects the
    fitted rows: `varying` if samples differ in length, else the implementation.
    """
    layers, loss, unused_pool, least = _fragmentation(key)
    if peak.one_size and key != "varying":
        loss = 0.0
    pool = max(moment.activations + moment.logits for moment in peak.moments)
    freed = max(layers * moment.activations + loss * moment.logits for moment in peak.moments)
    unused = unused_pool * (pool + freed)
    held = max(
        moment.total
        + max(0.0, peak.apart - moment.gradients)
        + (unused if moment.activations == 0.0 else freed)
        for moment in peak.moments
    )
    reserved = peak.weights + peak.optimizer + held
    if limit is not None:
        reserved = min(reserved, max(limit, peak.allocated * (1 + least)))
    return reserved


@functools.cache
def _fragmentation(key: str) -> tuple[float, float, float, float]:
    """Return the fitted rows for the allocator: for layers, for the loss, for its pool, and the minimum."""
    return (
        parameter("memory.fragmentation", key),
        parameter("memory.loss_fragmentation", key),
        parameter("memory.unused_pool"),
        parameter("memory.least_fragmentation"),
    )


def _on_cpu(peak: _Peak) -> MemoryBreakdown:
    """Return the increase of a worker's resident memory since the start of its process.

    The result includes the heap that the C library keeps.
    """
    moment = peak.moment
    dynamic = max(moment.total - moment.gradients for moment in peak.moments)
    heap = constant("cpu_heap_fraction") * dynamic + constant("cpu_lazy_bytes")
    overhead = constant("cpu_process_bytes") + heap
    states = peak.weights + peak.optimizer + max(moment.gradients for moment in peak.moments)
    summed = states + sum(moment.total - moment.gradients for moment in peak.moments)
    upper = (
        summed * (1 + constant("cpu_upper_fraction"))
        + constant("cpu_process_bytes")
        + constant("cpu_lazy_bytes")
    )
    upper = max(upper, peak.allocated + overhead)
    return MemoryBreakdown(
        total=peak.allocated + overhead,
        parameters=peak.weights,
        gradients=moment.gradients,
        optimizer=peak.optimizer,
        activations=moment.activations,
        logits=moment.logits,
        buffers=moment.buffers,
        overhead=overhead,
        allocated=peak.allocated + heap,
        reserved=peak.allocated + heap,
        upper=upper,
        needed=upper,
        logged=1.0,
        logged_figure="allocated",
    )


def _peak(job: TransformerJob, stage: Stage) -> _Peak:
    workload, candidate, stack = job.workload, job.candidate, job.stack
    model, degrees = workload.model, candidate.degrees
    fixed = _fixed_of(job, stage)
    states, buffers, row, compute, saved = fixed.states, fixed.buffers, fixed.row, fixed.compute, fixed.saved
    tokens = candidate.micro_batch * (workload.sequence_length / degrees.cp)
    layer = checkpoints = live = 0.0
    checkpointing = candidate.activation_checkpointing
    residual = 0.0 if candidate.offload_checkpoints else saved.residual / fixed.norm_ranks
    for (count, block), kept in zip(stage.blocks, fixed.kept, strict=True):
        whole = kept.fixed + kept.per_key * workload.sequence_length
        live = max(live, whole)
        if checkpointing == "full":
            recomputed = count * candidate.recomputed_share
            checkpoints += recomputed * block.hidden * residual * block.tokens / candidate.recomputed_together
            layer += (count - recomputed) * whole
        elif checkpointing == "selective":
            layer += count * (kept.fixed if stack.memory.selective == "scores" else kept.half)
        else:
            layer += count * whole
    live *= max(1.0, min(candidate.recomputed_together, sum(count for count, _ in stage.blocks)))
    cached = row.weight_cache_bytes.get(compute, 0.0) if job.trains_weights else 0.0
    # Autocast keeps 16-bit copies of leaf weights for a whole forward pass, even with recomputation. Experts
    # that are views of one tensor are not leaves, so their copies are not kept.
    casts = cached * (stage.linear + stage.head)
    if checkpointing == "full":
        cache, live_cache = (
            casts - cached * candidate.recomputed_share * stage.linear,
            cached * stage.largest.linear,
        )
    else:
        cache, live_cache = casts, 0.0
        live = live if checkpointing == "selective" and stack.memory.selective == "products" else 0.0
    activations = tokens * (layer + checkpoints) * stage.in_flight
    root = tokens * root_kept(model, saved, fixed.norm_ranks) if stage.last else 0.0
    each, one_size, held = fixed.each, fixed.one_size, fixed.held
    loading = 0.0
    if stack.memory.loads_whole and candidate.sharding_stage == "zero3":
        loading = 2.0 * (stage.dense + stage.expert) - states.optimizer
        loading += (parameter("memory.loading_shards") - 1.0) * states.weights
    moments = (
        _moment(0.0, 0.0, 0.0, loading),
        _moment(held, activations + root, tokens * each if stage.last else 0.0, buffers.loss + casts),
        _moment(held, activations + tokens * live, 0.0, buffers.backward + cache + live_cache),
        _moment(states.gradients, 0.0, 0.0, buffers.end),
        _moment(states.gradients, 0.0, 0.0, buffers.step),
    )
    moment = max(moments, key=lambda moment: moment.total)
    weights = states.weights + fixed.transposes * (stage.linear + stage.expert)
    # FSDP reduces gradients on a separate stream, and the allocator reserves freed blocks for the stream that
    # used them.
    apart = states.gradients if candidate.sharding_stage == "zero3" else 0.0
    return _Peak(weights, states.optimizer, moment, moments, one_size, apart)


class _Fixed(NamedTuple):
    """Parts of a stage's memory that depend neither on the micro-batch nor on recomputation."""

    states: States
    buffers: Buffers
    held: float
    """Bytes of gradients that exist before the backward pass."""
    row: Implementation
    compute: Compute
    saved: SavedBytes
    norm_ranks: int
    """Ranks that divide the tokens of norms."""
    kept: tuple[Kept, ...]
    """Bytes per token of one block of each kind."""
    each: float
    """Bytes of the loss's temporaries per token."""
    one_size: bool
    """True if all temporary tensors of the loss have the same size."""
    transposes: float
    """Bytes per parameter of a weight's transposed copy; 0 without a copy."""


def _fixed_of(job: TransformerJob, stage: Stage) -> _Fixed:
    candidate = job.candidate
    key = (
        *(id(job.workload), id(job.cluster), id(job.stack), id(stage)),
        *(candidate.degrees, candidate.sharding_stage, candidate.strategy, candidate.grad_accum > 1),
        *(candidate.offload, candidate.offload_weights),
        *(candidate.compiled, candidate.flash_attention, candidate.sequence_parallel),
    )
    return _fixed(Keyed((job, stage), key))


@functools.lru_cache(maxsize=16384)
def _fixed(keyed: Keyed[tuple[TransformerJob, Stage]]) -> _Fixed:
    job, stage = keyed.item
    candidate, stack, model = job.candidate, job.stack, job.workload.model
    tensor = candidate.degrees.tp
    states, compute = states_of(job, stage), compute_of(job)
    compiles = bool(candidate.compiled) and stack.kernels in ("eager", "upcasting")
    row = load_implementations()["compiled" if compiles else stack.implementation]
    saved = row.kept(compute)
    split_norms = tensor > 1 and job.divides_norms
    each, one_size = _loss(job, row, compute)
    return _Fixed(
        states=states,
        buffers=buffers_of(job, stage, states),
        held=_held_gradients(job, states, compute),
        row=row,
        compute=compute,
        saved=saved,
        norm_ranks=tensor if split_norms else 1,
        kept=tuple(
            kept_by(
                block,
                saved,
                rms=model.norm == "rmsnorm",
                rotary=not model.learned_positions,
                tensor=tensor,
                split_norms=split_norms,
                adapted=job.adapted,
                quantised=job.is_quantised,
                fused=fuses_attention(job),
                dropout=model.has_dropout,
                compiled=compiles,
            )
            for _, block in stage.blocks
        ),
        each=each,
        one_size=one_size,
        transposes=_transposes(job, row),
    )


def _loss(job: TransformerJob, row: Implementation, compute: Compute) -> tuple[float, bool]:
    """Return the bytes of the loss's temporaries per token, and whether all of them have the same size."""
    model, stack, saved = job.workload.model, job.stack, row.kept(compute)
    upcasts = autocasts_loss(job)
    kept = row.kept("autocast") if upcasts and compute in ("cast", "raised") else saved
    half = stack.memory.own_loss or (not model.raises_logits and saved.raised_logits > 0.0)
    is_one_size = compute == "fp32" or (half and not upcasts)
    return _logit_bytes(job, kept, compute, upcasts=upcasts), is_one_size


def _logit_bytes(job: TransformerJob, saved: SavedBytes, compute: Compute, *, upcasts: bool) -> float:
    """Return the bytes of logits and other temporaries of the loss per token.

    A chunked loss overwrites the logits of a chunk with their gradient. A fused loss chooses its chunks so
    that the logits of one chunk have as many elements as the hidden states of all tokens. These logits exist
    in 16 bits and in fp32, and the gradient of the hidden states is kept (Liger-Kernel,
    fused_linear_cross_entropy.py).
    """
    model, stack, tensor = job.workload.model, job.stack, job.candidate.degrees.tp
    if stack.memory.loss == "fused":
        return 8.0 * model.hidden
    if stack.memory.gathers_logits:
        tensor = 1
    each = saved.split_logits if tensor > 1 and saved.split_logits else saved.logits
    if compute == "cast" and model.raises_logits and saved.raised_logits and not stack.memory.own_loss:
        each = saved.raised_logits
    if compute == "raised" and not upcasts:
        each *= 2.0  # a head in fp32 computes logits in fp32
    if job.candidate.compiled and stack.memory.compiles_loss:
        each = min(each, parameter("memory.compiled_logits"))
    if stack.memory.loss == "chunked":
        each = min(each, _CHUNKED_BYTES)
    return (
        (model.head_outputs or model.vocab)
        * model.head_fraction
        * (each + model.prediction_layers * saved.input)
        / tensor
    )


def _transposes(job: TransformerJob, row: Implementation) -> float:
    """Return the bytes per parameter of a weight's transposed copy (Transformer Engine: columnwise usage).

    Sharded weights are transposed when they are gathered, frozen weights when they are used (NeMo:
    disable_parameter_transpose_cache).
    """
    if job.candidate.sharding_stage == "zero3" or not job.trains_weights:
        return 0.0
    precision, architecture = job.workload.precision, job.cluster.architecture
    both = bool(row.transposes_on) and precision in ("mxfp8", "nvfp4")
    return 1.0 if both or (precision == "fp8" and architecture in row.transposes_on) else 0.0
