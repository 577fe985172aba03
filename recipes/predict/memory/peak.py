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
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.implementations import Compute, load_implementations
from recipes.predict.memory.activations import Activations, saving_of
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


def _moment(gradients: float, activations: float, logits: float, buffers: float) -> _Moment:
    return _Moment(gradients, activations, logits, buffers, gradients + activations + logits + buffers)


def _total_of(parts: tuple[float, float, float, float]) -> float:
    return parts[0] + parts[1] + parts[2] + parts[3]


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
    other: float
    """Bytes of the largest of these three moments."""
    apart: float
    """Bytes of gradients that cannot reuse freed blocks; 0 if they can."""


class _States(NamedTuple):
    stages: tuple[_Fixed, ...]
    compute: Compute


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
    context, network = parameter("memory.context_bytes"), _network_bytes(cluster)
    limit = cluster.memory_bytes_per_rank.value if cluster.memory_bytes_per_rank is not None else None
    usable = None if limit is None else limit - context - network
    kind = "varying" if stack.samples_vary(job.workload) else stack.implementation
    reserved, fullest = max(
        ((_reserved(peak, kind, usable), peak) for peak in peaks), key=lambda pair: pair[0]
    )
    held = _held(most.allocated)
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


def needed_of(job: TransformerJob) -> float:
    """Return `needed` of `memory_of`, without the other figures."""
    if job.cluster.device == "cpu":
        return memory_of(job).needed
    tokens, parts, _ = _parts_of(job)
    largest = 0.0
    for stage, fixed, saved in parts:
        loss, backward = _moments(tokens, stage, fixed, saved)
        total = max(fixed.other, _total_of(loss), _total_of(backward))
        largest = max(largest, fixed.weights + fixed.optimizer + total)
    return _held(largest) + parameter("memory.context_bytes") + _network_bytes(job.cluster)


def _held(allocated: float) -> float:
    return allocated * (1 + parameter("memory.least_fragmentation"))


def _network_bytes(cluster: Cluster) -> float:
    return constant("nccl_bytes") if cluster.world_size > 1 else 0.0


def _peaks_of(job: TransformerJob) -> list[_Peak]:
    """Return the peak of each stage that may be the fullest."""
    tokens, parts, one_size = _parts_of(job)
    peaks = []
    for stage, fixed, saved in parts:
        loss, backward = _moments(tokens, stage, fixed, saved)
        moments = (fixed.loading, _moment(*loss), _moment(*backward), fixed.end, fixed.step)
        moment = max(moments, key=lambda moment: moment.total)
        peaks.append(_Peak(fixed.weights, fixed.optimizer, moment, moments, one_size, fixed.apart))
    return peaks


def _moments(
    tokens: float, stage: Stage, fixed: _Fixed, saved: Activations
) -> tuple[tuple[float, float, float, float], tuple[float, float, float, float]]:
    """Return the gradients, activations, logits and buffers of a stage in the loss and the backward pass."""
    activations = tokens * saved.kept * stage.in_flight
    return (
        (
            *(fixed.held, activations + tokens * saved.root),
            *(tokens * saved.logits, fixed.buffers.loss + saved.casts),
        ),
        (
            *(fixed.held, activations + tokens * saved.live, 0.0),
            fixed.buffers.backward + saved.cache + saved.live_cache,
        ),
    )


def _parts_of(job: TransformerJob) -> tuple[float, list[tuple[Stage, _Fixed, Activations]], bool]:
    """Return the tokens of a micro-batch on one rank, the parts of each stage that may be the fullest, and
    whether all temporary tensors of the loss have the same size.
    """
    candidate, degrees, schedule = job.candidate, job.candidate.degrees, job.candidate.schedule
    # A stage keeps no more micro-batches than its schedule can.
    flying = candidate.grad_accum
    if schedule != "gpipe":
        flying = min(flying, 2 * degrees.pp * degrees.vp + 1)
    sizes = (id(job.basis), id(job.stack), degrees.tp, degrees.pp, degrees.ep, degrees.vp)
    stages = _stages(job, (sizes, flying, schedule))
    dividing = (sizes, schedule == "layers", len(stages), job.cluster.architecture, candidate.compiled)
    sharding, replicas = candidate.sharding_stage, degrees.dp * degrees.fsdp
    shards = degrees.fsdp * degrees.cp if sharding == "zero3" else 1
    states = _states(
        (job, stages),
        (
            *(dividing, sharding, replicas * degrees.cp, shards, degrees.fsdp > 1, replicas > 1),
            *(candidate.strategy, candidate.grad_accum > 1, candidate.offload, candidate.offload_weights),
        ),
    )
    saving = saving_of(
        (job, stages, states.compute),
        (
            *(dividing, states.compute, candidate.activation_checkpointing, candidate.recomputed_share),
            *(candidate.recomputed_together, candidate.offload_checkpoints),
            *(candidate.flash_attention, candidate.sequence_parallel),
        ),
    )
    tokens = candidate.micro_batch * (job.workload.sequence_length / degrees.cp)
    return tokens, list(zip(stages, states.stages, saving.stages, strict=True)), saving.one_size


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
    moments = (
        _moment(0.0, 0.0, 0.0, loading),
        _moment(states.gradients, 0.0, 0.0, buffers.end),
        _moment(states.gradients, 0.0, 0.0, buffers.step),
    )
    return _Fixed(
        states.weights + _transposes(job) * (stage.linear + stage.expert),
        states.optimizer,
        _held_gradients(job, states, compute),
        buffers,
        *moments,
        max(moment.total for moment in moments),
        # FSDP reduces gradients on a separate stream, and the allocator reserves freed blocks for the stream
        # that used them.
        states.gradients if is_sharded else 0.0,
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
