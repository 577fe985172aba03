"""The layouts that a program allows for a job on a cluster.

A layout has a shape (degrees of parallelism, sharding, pipeline schedule) and choices inside the shape
(micro-batch and recomputation). `search.py` evaluates the layouts.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees, Schedule, Sharding
from recipes.job.pins import Pins
from recipes.job.workload import AnyWorkload, TransformerModel, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.programs import Program
from recipes.predict.stacks import Stack

SHORTEST_PART = 1024
"""Minimum number of tokens per rank if ranks share one sequence (Llama 3, arXiv 2407.21783,
section 3.3.2, gives each of 16 ranks 8192 tokens; NeMo's recipes 2048 to 4096, MLPerf's LoRA of Llama 2 70B
1024).
"""
LARGEST_MICRO_BATCH_TOKENS = 2**18
"""Tokens of a micro-batch on each context-parallel rank beyond which nothing becomes faster.

Only single sequences and micro-batches that the user fixed may be larger. Micro-batches of images have no
limit.
"""
_RECOMPUTED = (0.25, 0.5, 0.75, 1.0)
"""Parts of the layers that programs with a setting for this part may recompute, before rounding up to whole
layers.
"""
_BESIDE = 2
"""Embedding and head, which count as one layer each if the number of layers is not divisible (Megatron-LM:
--account-for-embedding-in-pipeline-split).
"""


SHARDING_OF: dict[str, Sharding] = {
    "ddp": "none",
    "zero1": "zero1",
    "zero2": "zero2",
    "fsdp": "zero3",
    "hsdp": "zero3",
}
"""Training state that ranks share, by the name of the data-parallel strategy.

`ddp` keeps whole copies, `zero1` shares optimizer states, `zero2` also gradients, `fsdp` shards everything
over all ranks, and `hsdp` shards everything within groups of ranks.
"""
STRATEGIES = tuple(SHARDING_OF)


def strategy_of(candidate: Candidate) -> str:
    """Return the strategy's name."""
    return strategy_named(candidate.sharding_stage, candidate.degrees)


def strategy_named(sharding: Sharding, degrees: Degrees) -> str:
    """Return the name of the strategy with this sharding."""
    if sharding == "zero3":
        return "hsdp" if degrees.dp > 1 else "fsdp"
    return "ddp" if sharding == "none" else sharding


class Shape(NamedTuple):
    """Degrees of parallelism, sharding and schedule of a layout."""

    degrees: Degrees
    sharding: Sharding
    schedule: Schedule

    @property
    def replicas(self) -> int:
        """Number of groups of ranks that train different sequences."""
        return self.degrees.dp * self.degrees.fsdp

    def scheduled(self, schedule: Schedule, parts: int) -> "Shape":
        """Return the shape with another schedule of its pipeline."""
        if (schedule, parts) == (self.schedule, self.degrees.vp):
            return self
        return Shape(msgspec.structs.replace(self.degrees, vp=parts), self.sharding, schedule)


class Recomputation(NamedTuple):
    """One way to recompute activations."""

    mode: ActivationCheckpointing
    share: float


class Request(NamedTuple):
    """Input of a search: a job, a machine, a program, and the settings that the user fixed."""

    workload: AnyWorkload
    cluster: Cluster
    stack: Stack
    program: Program
    pins: Pins
    base: Candidate
    """Candidate whose other settings (compilation, attention kernel, offload) every layout has."""
    is_coarse: bool = False
    """True if sharding groups and experts take only the sizes that usually win, for a quick comparison."""

    @property
    def model(self) -> TransformerModel | None:
        """The transformer; None for an image model, which only dp and fsdp can divide."""
        return self.workload.model if isinstance(self.workload, Workload) else None


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """Return all divisors in ascending order."""
    small = [candidate for candidate in range(1, int(number**0.5) + 1) if number % candidate == 0]
    return tuple(sorted({*small, *(number // candidate for candidate in small)}))


def deals_evenly(model: TransformerModel, parts: int) -> bool:
    """Return whether all `parts` of a pipeline can have the same number of layers.

    Embedding, head and each prediction layer may count as one layer.
    """
    return -(model.layers + model.encoder_layers) % parts <= _BESIDE + model.prediction_layers


def most_parts(model: TransformerModel, stages: int) -> int:
    """Return the largest number of parts that each of these pipeline stages can have."""
    return (model.layers + model.encoder_layers + model.prediction_layers + _BESIDE) // stages


def shapes(request: Request) -> Iterator[Shape]:
    """Yield the shapes that the program, the model, the machine and the pins allow.

    A shape with a pipeline has one part per stage; `schedules` lists the other possibilities.
    """
    pins, world = request.pins, request.cluster.world_size
    for tensor in _pinned(pins.tp, tensor_degrees(request)):
        for pipeline in _pinned(pins.pp, pipeline_degrees(request, world // tensor)):
            for context in _pinned(pins.cp, context_degrees(request, world // (tensor * pipeline), tensor)):
                replicas = world // (tensor * pipeline * context)
                if request.workload.global_batch % replicas:
                    continue
                yield from _shared(request, tensor, pipeline, context, replicas)


def _shared(request: Request, tensor: int, pipeline: int, context: int, replicas: int) -> Iterator[Shape]:
    """Yield the shapes with these degrees: each sharding and number of expert ranks."""
    if not schedules(request, pipeline):
        return
    experts = _pinned(request.pins.ep, expert_degrees(request, tensor * context * replicas))
    for sharding in _shardings(request, tensor, pipeline, replicas * context):
        for shards in _shards(request, sharding, replicas, tensor * context):
            for expert in experts:
                degrees = Degrees(
                    dp=replicas // shards, fsdp=shards, tp=tensor, pp=pipeline, cp=context, ep=expert
                )
                yield Shape(degrees, sharding, "1f1b")


def _pinned(pinned: int | None, choices: tuple[int, ...]) -> tuple[int, ...]:
    if pinned is None:
        return choices
    return (pinned,) if pinned in choices else ()


def _divides(request: Request) -> bool:
    """Return whether the program divides the model's matrices and layers in this kind of training."""
    return isinstance(request.workload, Workload) and request.workload.tuning in request.program.divides


def tensor_degrees(request: Request) -> tuple[int, ...]:
    """Return the numbers of ranks that can divide each matrix.

    The ranks are inside the domain of fast links, and each has whole heads.
    """
    model, cluster = request.model, request.cluster
    if model is None or not request.program.tensor or not _divides(request):
        return (1,)
    domain = min(cluster.domain_ranks or cluster.ranks_per_node, cluster.world_size)
    return tuple(
        size
        for size in divisors(model.heads)
        if size <= domain
        and cluster.world_size % size == 0
        and domain % size == 0
        and (model.kv_heads % size == 0 or size % model.kv_heads == 0)
    )


def pipeline_degrees(request: Request, ranks: int) -> tuple[int, ...]:
    """Return the numbers of stages into which the layers can be divided evenly."""
    model = request.model
    if model is None or not request.program.schedules or not _divides(request):
        return (1,)
    layers = model.layers + model.encoder_layers
    return tuple(size for size in divisors(ranks) if size <= layers and deals_evenly(model, size))


def context_degrees(request: Request, ranks: int, tensor: int) -> tuple[int, ...]:
    """Return the numbers of ranks that can share one sequence."""
    model, kind = request.model, request.program.context
    if model is None or not kind or not isinstance(request.workload, Workload):
        return (1,)
    length = request.workload.sequence_length
    sizes = [1]
    for size in divisors(ranks)[1:]:
        if (
            length % (size if kind == "heads" else 2 * size)
            or length // size < SHORTEST_PART
            or size & (size - 1)
        ):
            continue
        if kind == "ring" or model.heads % (size * tensor) == 0:
            sizes.append(size)
    return tuple(sizes)


def expert_degrees(request: Request, ranks: int) -> tuple[int, ...]:
    """Return the numbers of ranks over which the experts of a layer can be spread."""
    model = request.model
    if model is None or not model.is_moe or not request.program.experts:
        return (1,)
    sizes = divisors(math.gcd(model.experts, ranks))
    if not request.is_coarse:
        return sizes
    # Compare experts within one domain of fast links with as many expert ranks as possible.
    domain = request.cluster.domain_ranks or request.cluster.ranks_per_node
    return tuple(sorted({1, max(size for size in sizes if size <= domain), sizes[-1]}))


def _shardings(request: Request, tensor: int, pipeline: int, sharers: int) -> tuple[Sharding, ...]:
    """Return the shardings to examine.

    If the program can share optimizer states, plain copies are examined only without tensor and pipeline
    parallelism, because they save no time, only settings.
    """
    program, strategy = request.program, request.pins.strategy
    named = None if strategy is None else SHARDING_OF[strategy]
    pinned = request.pins.sharding or named
    if named not in (None, pinned):
        return ()
    allowed = program.shardings if pipeline == 1 else program.pipeline_shardings
    if request.base.offload:
        # Only shards are offloaded: gradients and optimizer states of ZeRO-2, or everything of ZeRO-3.
        kept: tuple[Sharding, ...] = ("zero3",) if request.base.offload_weights else ("zero2", "zero3")
        allowed = tuple(sharding for sharding in allowed if sharding in kept)
        return tuple(sharding for sharding in allowed if pinned in (None, sharding))
    if sharers == 1 and "none" in allowed and pinned is None:
        allowed = ("none",)
    elif "zero1" in allowed and pinned != "none" and tensor * pipeline > 1:
        allowed = tuple(sharding for sharding in allowed if sharding != "none")
    if pinned is None:
        return allowed
    return (pinned,) if pinned in allowed else ()


def _shards(request: Request, sharding: Sharding, replicas: int, inner: int) -> Iterator[int]:
    """Yield the sizes of the groups that share one copy of the parameters.

    A group has all data-parallel ranks, or those of one, two, four ... nodes; without sharded parameters it
    has one rank. `inner` ranks work on the same sequences.
    """
    if sharding != "zero3":
        if request.pins.fsdp in (None, 1):
            yield 1
        return
    if (pinned := request.pins.fsdp) is not None:
        # All ranks are one group with fsdp, and there are several groups with hsdp.
        named = {"fsdp": pinned == replicas, "hsdp": pinned < replicas}
        if replicas % pinned == 0 and named.get(request.pins.strategy or "", True):
            yield pinned
        return
    if request.pins.strategy != "hsdp":
        yield replicas
    if request.pins.strategy == "fsdp":
        return
    size = max(1, request.cluster.ranks_per_node // inner)
    while request.program.hybrid and size < replicas:
        if size > 1 and replicas % size == 0:
            yield size
            if request.is_coarse:
                return
        size *= 2


def schedules(request: Request, pipeline: int) -> tuple[tuple[Schedule, int], ...]:
    """Return the schedules with the number of parts of each stage."""
    model, pins = request.model, request.pins
    if pipeline == 1 or model is None:
        # Without a pipeline there is no order of work; this is called 1f1b.
        return (("1f1b", 1),) if pins.vp in (None, 1) and pins.schedule in (None, "1f1b") else ()
    options: list[tuple[Schedule, int]] = []
    for schedule in request.program.schedules:
        if pins.schedule not in (None, schedule):
            continue
        if schedule != "interleaved":
            options.append((schedule, 1))
            continue
        options += [
            (schedule, parts)
            for parts in range(2, most_parts(model, pipeline) + 1)
            if deals_evenly(model, pipeline * parts)
        ]
    return tuple(option for option in options if pins.vp in (None, option[1]))


def micro_batches(request: Request, shape: Shape) -> tuple[int, ...]:
    """Return the micro-batches that divide a rank's share of the batch, ascending.

    In an interleaved pipeline, the number of micro-batches must be a multiple of the stages (Megatron-LM).
    """
    pins, degrees = request.pins, shape.degrees
    share = request.workload.global_batch // shape.replicas
    most = share
    if isinstance(request.workload, Workload):
        most = max(1, LARGEST_MICRO_BATCH_TOKENS * degrees.cp // request.workload.sequence_length)
    return tuple(
        size
        for size in _pinned(pins.micro_batch, divisors(share))
        if (size <= most or pins.micro_batch)
        and pins.grad_accum in (None, share // size)
        and (shape.schedule != "interleaved" or share // size % degrees.pp == 0)
    )


def recomputations(request: Request) -> tuple[Recomputation, ...]:
    """Return the ways to recompute that the program has, from the least to the most recomputed part.

    A pinned way is returned in any case.
    """
    stack, pins = request.stack, request.pins
    options = []
    for mode in request.program.checkpointing:
        if request.model is None and mode != "none":
            continue
        if mode == "full":
            shares: tuple[float, ...] = _RECOMPUTED if stack.recomputes_part else (1.0,)
            options += [Recomputation(mode, share) for share in shares]
        elif mode == "selective" and stack.memory.selective == "blocks":
            options.append(Recomputation("full", 0.5))
        else:
            options.append(Recomputation(mode, 1.0))
    if pins.activation_checkpointing is None and pins.recomputed_share is None:
        return tuple(options)
    mode = pins.activation_checkpointing or "full"
    if pins.recomputed_share is not None or mode != "full":
        return (Recomputation(mode, pins.recomputed_share or 1.0),)
    return tuple(option for option in options if option.mode == mode) or (Recomputation(mode, 1.0),)


def whole_layers(share: float, layers: int, parts: int) -> int:
    """Return the layers of each part of a pipeline that a program recomputes for this share of all layers.

    Programs count whole layers of the largest part (Megatron-LM: --recompute-num-layers).
    """
    return math.ceil(share * math.ceil(layers / parts) - 1e-9)


def recomputed_share(request: Request, degrees: Degrees, again: Recomputation) -> float:
    """Return the share of the layers that the program really recomputes; a share that the user fixed stays.

    Parts of a pipeline can have so few layers that a quarter of them is no whole layer.
    """
    model, share = request.model, again.share
    is_open = request.pins.recomputed_share is None and request.stack.recomputes_part
    if model is None or again.mode != "full" or share >= 1.0 or not is_open:
        return share
    layers, parts = model.layers + model.encoder_layers, degrees.pp * degrees.vp
    return whole_layers(share, layers, parts) / math.ceil(layers / parts)


def candidate_of(request: Request, shape: Shape, micro_batch: int, again: Recomputation) -> Candidate:
    """Return the candidate with this shape, micro-batch and recomputation."""
    base = request.base
    return Candidate(
        strategy="fsdp" if shape.sharding == "zero3" else "ddp",
        degrees=shape.degrees,
        micro_batch=micro_batch,
        grad_accum=request.workload.global_batch // (shape.replicas * micro_batch),
        global_batch=request.workload.global_batch,
        activation_checkpointing=again.mode,
        recomputed_share=recomputed_share(request, shape.degrees, again),
        precision=request.workload.precision,
        sharding=shape.sharding,
        offload=base.offload,
        offload_weights=base.offload_weights,
        offload_checkpoints=base.offload_checkpoints,
        compiled=base.compiled,
        flash_attention=base.flash_attention,
        sequence_parallel=base.sequence_parallel,
        schedule=shape.schedule,
    )
