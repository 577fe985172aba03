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
import operator
from typing import NamedTuple

import msgspec

from recipes.constants import constant
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.implementations import Compute, load_implementations
from recipes.predict.memory.activations import saving_of
from recipes.predict.memory.buffers import Buffers, buffers_of
from recipes.predict.memory.stages import Stage, stages_of
from recipes.predict.memory.states import States, compute_of, is_pure, states_of
from recipes.predict.parameters import parameter
from recipes.predict.training_job import ByKey, TransformerJob

_FP32 = 4.0


class _Moment(NamedTuple):
    gradients: float
    activations: float
    logits: float
    buffers: float
    total: float


_total = operator.attrgetter("total")


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
    cluster, stack = job.cluster, job.stack
    peaks = _peaks_of(job)
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
    pool = freed = held = 0.0
    for moment in peak.moments:
        pool = max(pool, moment.activations + moment.logits)
        freed = max(freed, layers * moment.activations + loss * moment.logits)
    unused = unused_pool * (pool + freed)
    for moment in peak.moments:
        left = unused if moment.activations == 0.0 else freed
        held = max(held, moment.total + max(0.0, peak.apart - moment.gradients) + left)
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


def _peaks_of(job: TransformerJob) -> list[_Peak]:
    """Return the peak of each stage that may be the fullest."""
    workload, candidate = job.workload, job.candidate
    degrees, cluster = candidate.degrees, job.cluster
    schedule = candidate.schedule
    # A stage keeps no more micro-batches than its schedule can.
    flying = candidate.grad_accum
    if schedule != "gpipe":
        flying = min(flying, 2 * degrees.pp * degrees.vp + 1)
    dividing = (
        id(job.basis),
        id(job.stack),
        degrees.tp,
        degrees.pp,
        degrees.ep,
        degrees.vp,
        flying,
        schedule,
    )
    stages = _stages(job, dividing)
    states = _states(
        (job, stages),
        (
            *(dividing, degrees.dp, degrees.fsdp, degrees.cp, candidate.sharding_stage, candidate.strategy),
            *(candidate.grad_accum > 1, candidate.offload, candidate.offload_weights),
            *(cluster.architecture, candidate.compiled),
        ),
    )
    saving = saving_of(
        (job, stages, states.compute),
        (
            *(dividing, states.compute, candidate.activation_checkpointing, candidate.recomputed_share),
            *(candidate.recomputed_together, candidate.offload_checkpoints, cluster.architecture),
            *(candidate.compiled, candidate.flash_attention, candidate.sequence_parallel),
        ),
    )
    tokens = candidate.micro_batch * (workload.sequence_length / degrees.cp)
    peaks = []
    for stage, fixed, saved in zip(stages, states.stages, saving.stages, strict=True):
        activations, held = tokens * saved.kept * stage.in_flight, fixed.held
        at_loss, at_backward = fixed.buffers.loss + saved.casts, fixed.buffers.backward + saved.cache
        moments = (
            fixed.loading,
            _moment(held, activations + tokens * saved.root, tokens * saved.logits, at_loss),
            _moment(held, activations + tokens * saved.live, 0.0, at_backward + saved.live_cache),
            fixed.end,
            fixed.step,
        )
        moment = max(moments, key=_total)
        peaks.append(_Peak(fixed.weights, fixed.optimizer, moment, moments, saving.one_size, fixed.apart))
    return peaks


@ByKey
def _stages(job: TransformerJob) -> tuple[Stage, ...]:
    candidate = job.candidate
    return stages_of(
        job.workload.model,
        candidate.degrees,
        candidate.grad_accum,
        candidate.schedule,
        unties=job.stack.memory.unties_head,
    )


class _Fixed(NamedTuple):
    """Parts of a stage's memory that depend neither on the micro-batch nor on recomputation."""

    weights: float
    optimizer: float
    held: float
    """Bytes of gradients that exist before the backward pass."""
    buffers: Buffers
    loading: _Moment
    end: _Moment
    step: _Moment
    apart: float
    """Bytes of gradients that cannot reuse freed blocks; 0 if they can."""


class _States(NamedTuple):
    stages: tuple[_Fixed, ...]
    compute: Compute


@ByKey
def _states(job_and_stages: tuple[TransformerJob, tuple[Stage, ...]]) -> _States:
    job, stages = job_and_stages
    compute = compute_of(job)
    return _States(tuple(_fixed(job, stage, compute) for stage in stages), compute)


def _fixed(job: TransformerJob, stage: Stage, compute: Compute) -> _Fixed:
    candidate, stack = job.candidate, job.stack
    states = states_of(job, stage)
    buffers = buffers_of(job, stage, states)
    is_sharded = candidate.sharding_stage == "zero3"
    loading = 0.0
    if stack.memory.loads_whole and is_sharded:
        loading = 2.0 * (stage.dense + stage.expert) - states.optimizer
        loading += (parameter("memory.loading_shards") - 1.0) * states.weights
    return _Fixed(
        weights=states.weights + _transposes(job) * (stage.linear + stage.expert),
        optimizer=states.optimizer,
        held=_held_gradients(job, states, compute),
        buffers=buffers,
        loading=_moment(0.0, 0.0, 0.0, loading),
        end=_moment(states.gradients, 0.0, 0.0, buffers.end),
        step=_moment(states.gradients, 0.0, 0.0, buffers.step),
        # FSDP reduces gradients on a separate stream, and the allocator reserves freed blocks for the stream
        # that used them.
        apart=states.gradients if is_sharded else 0.0,
    )


def _transposes(job: TransformerJob) -> float:
    """Return the bytes per parameter of a weight's transposed copy (Transformer Engine: columnwise usage).

    Sharded weights are transposed when they are gathered, frozen weights when they are used (NeMo:
    disable_parameter_transpose_cache).
    """
    if job.candidate.sharding_stage == "zero3" or not job.trains_weights:
        return 0.0
    precision, architecture = job.workload.precision, job.cluster.architecture
    compiles = bool(job.candidate.compiled) and job.stack.kernels in ("eager", "upcasting")
    row = load_implementations()["compiled" if compiles else job.stack.implementation]
    both = bool(row.transposes_on) and precision in ("mxfp8", "nvfp4")
    return 1.0 if both or (precision == "fp8" and architecture in row.transposes_on) else 0.0
