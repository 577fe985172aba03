"""How a case lays its model over its GPUs, with what the row leaves blank worked out from the rest.

What follows from the row is worked out here. Where the row leaves a choice, the choices come in the order in which people
make them, and `recipes/cases/resolved.py` takes the first that fits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import msgspec

from probes.record import Record
from recipes.cases.case import Case, CaseError
from recipes.cases.legality import deals_evenly
from recipes.cases.words import (
    Recomputed,
    Sharing,
    checkpointing_of,
    names_zero,
    offloads,
    offloads_weights,
    recomputed_of,
    schedule_of,
    sharing_of,
)
from recipes.plan import ActivationCheckpointing, Candidate, Degrees, Schedule, Sharding
from recipes.stacks import Stack
from recipes.workload import TransformerModel

_LONG_SEQUENCE = 8192
"""From here on people split the tokens of a sequence before they split its matrices further."""
_SPREAD_SEQUENCE = 32768
"""From here on people spread a sequence over GPUs that could each have one (Llama 3, arXiv 2407.21783, section 3.3.2)."""
_WIDEST_CONTEXT = 16
_SHARING_RANKS = 8
"""Data-parallel ranks of a case that says that they share states, but not how many they are."""
_WIDEST_TENSOR = 8
_EXPERT_RANKS = (4, 8, 16, 32, 64)
"""Over how many ranks people spread experts (DeepSeek-V3, arXiv 2412.19437: 64; Qwen3 and Mixtral in NeMo's recipes: 4 to 32)."""
_MICRO_BATCHES_PER_STAGE = 4
"""With which a pipeline hardly waits (GPipe, arXiv 1811.06965, section 2.3)."""
_DEEPEST_PIPELINE = 64
_RECOMPUTED = (0.25, 0.5, 0.75, 1.0)
"""Parts of the layers that people recompute, the least that is enough."""
_PARTS = 2
"""Of a pipeline stage whose schedule is interleaved, where nothing says how many (torchtitan's default)."""
_SELECTED = 0.5
"""Part of the layers that a selection of whole layers recomputes where nothing says it (torchtitan: selective_ac_option 2)."""
_STAGES: tuple[Sharding, ...] = ("none", "zero1", "zero2", "zero3")


class Layout(Record, kw_only=True):
    """The candidate of a case."""

    candidate: Candidate
    notes: tuple[str, ...] = ()
    """What was assumed."""


class Choice(Record, kw_only=True):
    """Degrees and checkpointing that a case leaves open."""

    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    sharding: Sharding | None = None
    is_tried: bool = False
    """People try several like it, and keep the fastest."""
    splits_layers: bool = False
    checkpointing: ActivationCheckpointing | None = None
    recomputed: float = 1.0
    """Part of the layers, where `checkpointing` is full."""

    @property
    def words(self) -> str:
        if self.splits_layers:
            return f"the {self.pp} GPUs are taken to hold consecutive layers of one model"
        sizes = (("tp", self.tp), ("pp", self.pp), ("cp", self.cp), ("ep", self.ep))
        degrees = [f"{name} {value}" for name, value in sizes if (value or 1) > 1]
        return " ".join([*degrees, *([f"sharding {self.sharding}"] if self.sharding else [])])


def gpus_of(case: Case) -> int:
    """The GPUs of the job: stated, or the product of what is. Experts are spread over tensor-parallel ranks too."""
    if case.n_gpus:
        return case.n_gpus
    tensor, pipeline, context = case.tp or 1, case.pp or 1, case.cp or 1
    stated = (case.dp or 1) * (case.fsdp or 1)
    sharing = sharing_of(case.sharding)
    if stated == 1 and not sharing.is_alone and case.global_batch and case.micro_batch and case.grad_accum:
        stated = max(1, case.global_batch // (case.micro_batch * case.grad_accum))
    elif stated == 1 and sharing.sharding not in (None, "none"):
        stated = _SHARING_RANKS
    return pipeline * max(tensor * context * stated, math.lcm(tensor * context, case.ep or 1))


def choices_of(case: Case, stack: Stack, gpus: int, *, model: TransformerModel | None, domain: int) -> tuple[Choice, ...]:
    """What the row leaves open, most usual first; one empty choice where it leaves nothing open.

    `model` is None for image models, which nobody recomputes and of which only the batch is divided. `domain` is how many GPUs
    fast links join.

    Where it does not say that layers are recomputed, they are where the run would not fit otherwise, just as many as must be
    where the stack lets people choose.
    """
    layouts = _layouts(case, stack, gpus, model, domain)
    if case.activation_checkpointing or stack.checkpointing == "full" or model is None:
        return layouts
    shares = _RECOMPUTED if stack.recomputes_part else (1.0,)
    recomputed = (
        msgspec.structs.replace(layout, checkpointing="full", recomputed=share) for share in shares for layout in layouts
    )
    return (*layouts, *recomputed)


def _layouts(case: Case, stack: Stack, gpus: int, model: TransformerModel | None, domain: int) -> tuple[Choice, ...]:
    sharing = sharing_of(case.sharding)
    if gpus == 1:
        return (Choice(),)
    spare = _spare_ranks(case, gpus)
    if sharing.splits_layers or (spare == gpus and stack.spare_ranks == "layers"):
        return (Choice(pp=gpus, splits_layers=True),)
    stated = case.sharding or case.zero_stage is not None or case.dp is not None or case.fsdp is not None
    if spare > 1:
        parts = 1 if stack.spare_ranks == "sequence" else 2
        spread = tuple(one for one in _spread(case, stack, spare) if not one.cp or (case.seq_len or 0) % (parts * one.cp) == 0)
        spread = spread or (Choice(),)
        if stated or stack.shards_optimizer or stack.shards_parameters:
            return spread
        return (*spread, *(msgspec.structs.replace(one, sharding="zero3") for one in spread))
    if _is_open(case):
        return tuple(_growing(case, stack, gpus, model, domain))
    if not stated and not stack.shards_optimizer and not stack.shards_parameters:
        return (Choice(), Choice(sharding="zero2"), Choice(sharding="zero3"))
    return (Choice(),)


def _is_open(case: Case) -> bool:
    """Whether the row says nothing about how the GPUs share the model, but for its experts perhaps."""
    degrees = (case.tp, case.pp, case.cp, case.dp, case.fsdp, case.zero_stage)
    return not case.sharding and case.ep != 1 and all(degree is None for degree in degrees)


def _spare_ranks(case: Case, gpus: int) -> int:
    """Factor by which GPUs outnumber the sequences that a micro-batch needs of them: so many must share one model.

    Where a row names its sharding, its accumulation may be wrong rather than its layout, and only the batch counts.
    """
    is_open = case.dp is None and case.fsdp is None and None in (case.tp, case.cp, case.pp)
    if case.global_batch is None or not is_open:
        return 1
    replicas = gpus // ((case.tp or 1) * (case.pp or 1) * (case.cp or 1))
    at_once = 1 if case.sharding or case.zero_stage else (case.micro_batch or 1) * (case.grad_accum or 1)
    needed = max(1, case.global_batch // at_once)
    return replicas // needed if needed < replicas and replicas % needed == 0 else 1


def _spread(case: Case, stack: Stack, ranks: int) -> Iterator[Choice]:
    """Ways in which `ranks` GPUs share one sequence."""
    if stack.spare_ranks == "sequence" and case.cp is None:
        yield Choice(cp=ranks)
        return
    is_long = (case.seq_len or 0) >= _LONG_SEQUENCE
    for tensor in (1, 2, 4, 8):
        context = ranks // tensor
        if ranks % tensor or (tensor > 1 and case.tp is not None) or (context > 1 and (case.cp is not None or not is_long)):
            continue
        yield Choice(tp=tensor if case.tp is None else None, cp=context if context > 1 else None)
    if case.tp is None and case.pp is None and ranks > _WIDEST_TENSOR and ranks % _WIDEST_TENSOR == 0:
        yield Choice(tp=_WIDEST_TENSOR, pp=ranks // _WIDEST_TENSOR)
    if case.cp is None and not is_long and (case.tp is not None or ranks > _WIDEST_TENSOR):
        yield Choice(cp=ranks)


def _growing(case: Case, stack: Stack, gpus: int, model: TransformerModel | None, domain: int) -> Iterator[Choice]:
    """Data parallelism, then more sharing, as people do until a model fits."""
    if stack.shards_optimizer and stack.spare_ranks == "tensor":
        yield from [Choice()] if model is None else _divided(case, gpus, model, domain)
        return
    yield Choice()
    if not stack.shards_parameters:
        yield Choice(sharding="zero2")
        yield Choice(sharding="zero3")
    if model is None or stack.spare_ranks != "tensor":
        return
    spread = ((context, experts) for context in _context_ranks(case, gpus) for experts in _expert_ranks(case, model, gpus))
    for context, experts in spread:
        if context * experts > 1:
            yield Choice(sharding="zero3", cp=context, ep=experts, is_tried=True)


def _divided(case: Case, gpus: int, model: TransformerModel, domain: int) -> Iterator[Choice]:
    """Data parallelism, which is enough for a dense model that it fits; then tensor parallelism within the domain of fast links,
    context parallelism of long sequences, pipelines, and experts that stand whole on their ranks."""
    yield Choice(is_tried=model.is_moe)
    depths = range(1, min(gpus, _DEEPEST_PIPELINE, model.layers) + 1)
    sizes = itertools.product(depths, _context_ranks(case, gpus), (1, 2, 4, _WIDEST_TENSOR))
    for depth, context, tensor in sizes:
        shared = depth * context * tensor
        is_even = gpus % shared == 0 and deals_evenly(model, depth) and model.heads % tensor == 0
        if not is_even or tensor > domain or (case.global_batch or 0) % (gpus // shared):
            continue
        for experts in _expert_ranks(case, model, gpus // depth):
            if experts * shared > 1:
                yield Choice(tp=tensor, pp=depth, cp=context, ep=experts, is_tried=True)


def _context_ranks(case: Case, gpus: int) -> tuple[int, ...]:
    """Over how many GPUs people spread the tokens of one sequence, which they do where it is long."""
    length = case.seq_len or 0
    most = 1 if length < _SPREAD_SEQUENCE else _WIDEST_CONTEXT
    return tuple(ranks for ranks in (1, 2, 4, 8, 16) if ranks <= most and gpus % ranks == 0 and length % (2 * ranks) == 0) or (1,)


def _expert_ranks(case: Case, model: TransformerModel, ranks: int) -> tuple[int, ...]:
    """Over how many of `ranks` GPUs experts may be spread: as stated, as many as people take, else the largest part of few."""
    if not model.is_moe or case.ep is not None:
        return (case.ep or 1,)
    shared = math.gcd(model.experts, ranks)
    return tuple(size for size in _EXPERT_RANKS if shared % size == 0) or (shared,)


def micro_batches_of(case: Case, stack: Stack, gpus: int, enough: int) -> tuple[int, ...]:
    """Micro-batches to try, in order, for a case that does not state one; more than `enough` do not speed it up.

    The framework's default; one for a pipeline, which needs many; else the largest power of two that fits.
    """
    replicas = max(1, gpus // ((case.tp or 1) * (case.pp or 1) * (case.cp or 1)))
    share = None if case.global_batch is None else max(1, case.global_batch // replicas)
    if share is not None and case.grad_accum is not None:
        return (max(1, share // case.grad_accum),)
    if stack.micro_batch is not None and (share is None or share >= stack.micro_batch):
        return (stack.micro_batch,)
    if (case.pp or 1) > 1:
        return (1,)
    most = max(1, enough if share is None else min(enough, share))
    powers = [1 << exponent for exponent in range(most.bit_length() - 1, -1, -1)]
    return tuple(size for size in powers if share is None or share % size == 0) or (1,)


def recompute_words(candidate: Candidate) -> str:
    """`none`, `full`, `full of 25 % of the layers`."""
    part = f" of {candidate.recomputed_share:.0%} of the layers".replace("%", " %") if candidate.recomputed_share < 1.0 else ""
    together = f", {candidate.recomputed_together} layers at once" if candidate.recomputed_together > 1 else ""
    return candidate.activation_checkpointing + part + together


def with_choice(case: Case, choice: Choice) -> Case:
    """The case with the choice filled in."""
    return msgspec.structs.replace(
        case, tp=choice.tp or case.tp, pp=choice.pp or case.pp, cp=choice.cp or case.cp, ep=choice.ep or case.ep
    )


def layout_of(
    case: Case, stack: Stack, gpus: int, *, per_node: int, layers: int, precision: str, micro_batch: int, choice: Choice
) -> Layout:
    """`micro_batch` is assumed where nothing says it, `per_node` is the machine's, `layers` the model's.

    Raises CaseError where the degrees contradict the number of GPUs or each other.
    """
    tensor, pipeline, context = case.tp or 1, case.pp or 1, case.cp or 1
    model_parallel = tensor * pipeline * context
    if gpus % model_parallel:
        raise CaseError(f"n_gpus is {gpus}, which tp {tensor} x pp {pipeline} x cp {context} do not divide")
    replicas = gpus // model_parallel
    sharing = sharing_of(case.sharding)
    if sharing.is_alone and replicas > 1:
        raise CaseError(f"sharding is {case.sharding[:40]!r}, but n_gpus is {gpus}: give ddp, zero1 to zero3 or fsdp")
    notes = [sharing.note] if sharing.note else []
    sharding = choice.sharding or _sharding(case, stack, sharing, replicas)
    fully = sharding == "zero3"
    shards = _shards(case, sharing, replicas, context, min(gpus, case.gpus_per_node or per_node) / gpus) if fully else 1
    if fully and sharing.hybrid and case.fsdp is None and case.gpus_per_node is None and replicas > 1:
        notes.append(f"fsdp {shards}, the data-parallel GPUs of a node: fsdp or gpus_per_node says how many share one copy")
    offload = sharing.offload
    if gpus == 1 and sharding in ("zero2", "zero3") and not offload and (case.zero_stage or names_zero(case.sharding)):
        offload = stack.offloads_alone
        where = "states live in the host's memory, as in the stack's own examples" if offload else "states stay there"
        notes.append(f"sharding {sharding} on one GPU: {where}; `{sharding} offload` says that the host holds them")
    if fully and replicas % shards:
        raise CaseError(f"fsdp is {shards}, which does not divide {replicas} data-parallel GPUs")
    if case.dp is not None and not fully and case.dp != replicas:
        notes.append(f"dp {case.dp} does not follow from {gpus} GPUs: {replicas} is taken")
    micro, accumulation, batch = _batch(case, choice, replicas, micro_batch)
    if batch < micro * replicas:
        words = f"global_batch {batch} is less than micro_batch {micro} on {replicas} data-parallel GPUs"
        micro = max(1, batch // replicas)
        notes.append(f"{words}: micro_batch {micro} is taken")
    if case.grad_accum is not None and case.global_batch is not None and accumulation != case.grad_accum:
        notes.append(f"grad_accum {case.grad_accum} does not follow from the batches: {accumulation} is taken")
    parts = case.vp or 1
    schedule: Schedule = "layers" if choice.splits_layers else _schedule(case)
    if schedule == "interleaved" and parts == 1:
        parts = _PARTS
        notes.append(f"vp {parts}")
    checkpointing, again = _recomputation(case, stack, choice, notes)
    return Layout(
        candidate=Candidate(
            strategy="fsdp" if fully else "ddp",
            degrees=Degrees(dp=replicas // shards, fsdp=shards, tp=tensor, pp=pipeline, cp=context, ep=case.ep or 1, vp=parts),
            micro_batch=micro,
            grad_accum=accumulation,
            global_batch=batch,
            activation_checkpointing=checkpointing,
            recomputed_share=again.share if again.layers is None else min(1.0, again.layers * pipeline * parts / max(1, layers)),
            recomputed_together=again.together,
            precision=precision,
            sharding=sharding,
            offload=offload,
            offload_checkpoints=stack.memory.checkpoints_on_host or offloads(case.activation_checkpointing),
            offload_weights=offload and fully and offloads_weights(case.sharding),
            compiled=case.compile,
            flash_attention=case.flash_attention,
            sequence_parallel=case.sequence_parallel,
            schedule=schedule,
        ),
        notes=tuple(notes),
    )


def _recomputation(case: Case, stack: Stack, choice: Choice, notes: list[str]) -> tuple[ActivationCheckpointing, Recomputed]:
    """How much is recomputed, as stated; `notes` grow by what a stack's selection is taken for."""
    words = case.activation_checkpointing
    if not words:
        return choice.checkpointing or stack.checkpointing, Recomputed(choice.recomputed)
    mode = checkpointing_of(words)
    if mode == "selective" and stack.memory.selective == "blocks":
        notes.append("activation_checkpointing selective is taken for every second layer: `selective 1/3` states another part")
        return "full", Recomputed(_SELECTED)
    return mode, recomputed_of(words)


def _schedule(case: Case) -> Schedule:
    """As stated; 1F1B is interleaved where stages have several parts. A schedule says nothing where there is no pipeline."""
    stated = schedule_of(case.pp_schedule) if case.pp_schedule else "1f1b"
    if (case.pp or 1) == 1 and stated == "interleaved":
        stated = "1f1b"
    return "interleaved" if stated == "1f1b" and (case.vp or 1) > 1 else stated


def _shards(case: Case, sharing: Sharing, replicas: int, context: int, node: float) -> int:
    """Data-parallel GPUs that share one copy of the parameters; a node has the part `node` of all GPUs.

    Frameworks count the GPUs of context parallelism among those that share, or not (torchtitan: dp_shard_cp, dp_shard).
    """
    if case.fsdp is not None:
        if case.fsdp > replicas * context:
            raise CaseError(f"fsdp is {case.fsdp}, but the layout leaves fewer GPUs for it: give at most {replicas * context}")
        return min(case.fsdp, replicas)
    return math.gcd(replicas, max(1, int(replicas * node))) if sharing.hybrid else replicas


def _sharding(case: Case, stack: Stack, sharing: Sharing, replicas: int) -> Sharding:
    if case.zero_stage is not None:
        stage = _STAGES[case.zero_stage]
        shared = sharing.sharding not in (None, "none")
        if shared and stage != sharing.sharding and (stage == "none" or names_zero(case.sharding)):
            raise CaseError(f"zero_stage is {case.zero_stage}, but sharding is {case.sharding[:40]!r}: leave one of them blank")
        return stage
    if case.fsdp is not None and case.fsdp > 1 and sharing.sharding not in ("zero1", "zero2"):
        return "zero3"
    if sharing.sharding is not None:
        return sharing.sharding
    if stack.shards_parameters and not case.sharding:
        return "zero3" if replicas > 1 else "none"
    return "zero1" if stack.shards_optimizer else "none"


def _batch(case: Case, choice: Choice, replicas: int, assumed: int) -> tuple[int, int, int]:
    """Micro-batch, accumulation and global batch. The stated global batch is kept as it is."""
    micro, batch = case.micro_batch or assumed, case.global_batch
    if batch is None:
        accumulation = case.grad_accum or _accumulated(case, choice, micro)
        return micro, accumulation, micro * accumulation * replicas
    if case.micro_batch is None:
        micro = max(1, min(micro, batch // replicas))
    return micro, max(1, round(batch / (micro * replicas))), batch


def _accumulated(case: Case, choice: Choice, micro: int) -> int:
    """Micro-batches of a step where nothing tells its batch: enough for the pipeline, and as many sequences as there are GPUs
    where the layout is a choice, so that all that are tried take the same batch."""
    stages = 1 if choice.splits_layers else case.pp or 1
    enough = _MICRO_BATCHES_PER_STAGE * stages if stages > 1 else 1
    same = -(-(case.tp or 1) * stages * (case.cp or 1) // micro) if choice.is_tried else 1
    return max(enough, same)
