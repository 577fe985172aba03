"""The layout of a case's model over its GPUs.

Values for blank cells are derived from the other cells and from a `Choice` of `choices.py`.
"""

import math

import msgspec

from probes.base.record import Record, quoted
from probes.base.units import plural
from recipes.cases.case import Case, CaseError
from recipes.cases.choices import Choice
from recipes.cases.table_words import (
    Recomputed,
    Sharing,
    checkpointing_of,
    names_zero,
    offloads,
    offloads_weights,
    recomputed_of,
    schedule_of,
    sharing_of,
    steps_on_host,
)
from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees, Schedule, Sharding
from recipes.job.workload import TransformerModel, VisionModel
from recipes.predict.stacks import Stack

_SHARING_RANKS = 8
"""Number of data-parallel ranks that is assumed if a case shards its states but gives no number of ranks."""
_MICRO_BATCHES_PER_STAGE = 4
"""Number of micro-batches per stage at which a pipeline is hardly ever idle (GPipe, arXiv 1811.06965, 2.3).
"""
_PARTS = 2
"""Default number of parts into which an interleaved schedule divides a stage (torchtitan)."""
_SELECTED = 0.5
"""Fraction of the layers that are recomputed by default if whole layers are selected (torchtitan:
selective_ac_option 2).
"""
_ROUNDED = 0.05
"""Largest part by which a global batch falls short of the micro-batches because rates were rounded."""
_STAGES: tuple[Sharding, ...] = ("none", "zero1", "zero2", "zero3")


class Layout(Record, kw_only=True):
    """The layout of a case, as a candidate for the models of memory and time."""

    candidate: Candidate
    notes: tuple[str, ...] = ()
    """Assumptions, as text."""


def gpus_of(case: Case) -> int:
    """Return the number of GPUs of the job: the stated number, or the product of the degrees.

    The data-parallel degree is dp x fsdp. If both are blank or 1, it is derived from the batch sizes if all
    are stated; otherwise it is 8 if the states are sharded. Experts are spread over tensor-, context- and
    data-parallel ranks, so `ep` adds GPUs only if there are too few of these ranks.
    """
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


def recompute_words(candidate: Candidate) -> str:
    """Return a description of the recomputation, such as `none` or `full of 25 % of the layers`."""
    part = (
        f" of {candidate.recomputed_share:.0%} of the layers".replace("%", " %")
        if candidate.recomputed_share < 1.0
        else ""
    )
    together = (
        f", {candidate.recomputed_together} layers at once" if candidate.recomputed_together > 1 else ""
    )
    return candidate.activation_checkpointing + part + together


def layout_of(
    case: Case,
    stack: Stack,
    gpus: int,
    *,
    per_node: int,
    layers: int,
    precision: str,
    micro_batch: int,
    choice: Choice,
) -> Layout:
    """Return the layout of a case.

    `micro_batch` is used if the case states no micro-batch. `per_node` is the number of GPUs of a node,
    `layers` the number of layers of the model. Raises CaseError if the degrees contradict the number of GPUs
    or each other, or if `zero_stage` contradicts `sharding`.
    """
    tensor, pipeline, context = case.tp or 1, case.pp or 1, case.cp or 1
    model_parallel = tensor * pipeline * context
    if gpus % model_parallel:
        raise CaseError(f"n_gpus is {gpus}, which tp {tensor} x pp {pipeline} x cp {context} do not divide")
    replicas = gpus // model_parallel
    sharing = sharing_of(case.sharding)
    if sharing.is_alone and replicas > 1:
        raise CaseError(
            f"sharding is {quoted(case.sharding)}, but n_gpus is {gpus}: give ddp, zero1 to zero3 or fsdp"
        )
    notes = [sharing.note] if sharing.note else []
    sharding = choice.sharding or _sharding(case, stack, sharing, replicas)
    notes += _shared_by_default(case, stack, sharing) if sharding == "zero1" and replicas > 1 else []
    fully = sharding == "zero3"
    shards = (
        _shards(case, sharing, replicas, context, min(gpus, case.gpus_per_node or per_node) / gpus)
        if fully
        else 1
    )
    if fully and sharing.hybrid and case.fsdp is None and case.gpus_per_node is None and replicas > 1:
        notes.append(
            f"fsdp {shards}, the data-parallel GPUs of a node: "
            "state fsdp or gpus_per_node if another number of GPUs shares one copy"
        )
    offload = sharing.offload or steps_on_host(case.optimizer)
    if (
        gpus == 1
        and sharding in ("zero2", "zero3")
        and not offload
        and (case.zero_stage or names_zero(case.sharding))
    ):
        offload = stack.offloads_alone
        where = (
            "states are assumed in the host's memory, as in the stack's own examples"
            if offload
            else f"states stay there; write `{sharding} offload` if they are in the host's memory"
        )
        notes.append(f"sharding {sharding} on one GPU: {where}")
    copied = _copied(case, stack, gpus) if fully else 1
    shards *= copied
    if fully and replicas % shards:
        raise CaseError(f"fsdp is {shards}, which does not divide {plural(replicas, 'data-parallel GPU')}")
    if case.dp is not None and not fully and case.dp != replicas:
        notes.append(f"dp {case.dp} does not follow from {plural(gpus, 'GPU')}: {replicas} is used")
    if copied > 1:
        notes.append(f"fsdp {case.fsdp} x ep {copied}: the GPUs of ep are taken to have the same sequences")
    micro, accumulation, batch = _batch(case, choice, replicas // copied, micro_batch)
    micro = _divided(micro, batch, replicas // copied, notes)
    if case.grad_accum is not None and case.global_batch is not None and accumulation != case.grad_accum:
        notes.append(f"grad_accum {case.grad_accum} does not follow from the batches: {accumulation} is used")
    parts = case.vp or 1
    schedule: Schedule = "layers" if choice.splits_layers else _schedule(case)
    if schedule == "interleaved" and parts == 1:
        parts = _PARTS
        notes.append(f"vp {parts}")
    checkpointing, again = _recomputation(case, stack, choice, notes)
    return Layout(
        candidate=Candidate(
            strategy="fsdp" if fully else "ddp",
            degrees=Degrees(
                dp=replicas // shards,
                fsdp=shards,
                tp=tensor,
                pp=pipeline,
                cp=context,
                ep=case.ep or 1,
                vp=parts,
            ),
            micro_batch=micro,
            grad_accum=accumulation,
            global_batch=batch,
            activation_checkpointing=checkpointing,
            recomputed_share=again.share
            if again.layers is None
            else min(1.0, again.layers * pipeline * parts / max(1, layers)),
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


def _shared_by_default(case: Case, stack: Stack, sharing: Sharing) -> list[str]:
    """Return a note if a case has shared optimizer states only because the stack shares them by default."""
    if case.zero_stage is not None or sharing.sharding is not None:
        return []
    stated = f"sharding {quoted(case.sharding)} is read as zero1" if case.sharding else "sharding zero1"
    return [f"{stated}, the default of {stack.id}; zero_stage 0 means that each rank has all states"]


def _recomputation(
    case: Case, stack: Stack, choice: Choice, notes: list[str]
) -> tuple[ActivationCheckpointing, Recomputed]:
    """Return the stated recomputation, or else that of the choice, or else the default of the stack.

    Adds a note if the words mean a number of layers that the case does not state.
    """
    words = case.activation_checkpointing
    if not words:
        return choice.checkpointing or stack.checkpointing, Recomputed(choice.recomputed)
    mode = checkpointing_of(words)
    if mode == "selective" and stack.memory.selective == "blocks":
        notes.append(
            "activation_checkpointing selective is read as every second layer: "
            "write for example `selective 1/3` for another fraction"
        )
        return "full", Recomputed(_SELECTED)
    return mode, recomputed_of(words)


def _schedule(case: Case) -> Schedule:
    """Return the stated schedule or 1F1B; 1F1B becomes interleaved if stages have several parts.

    Without a pipeline, a stated `interleaved` is read as 1F1B.
    """
    stated = schedule_of(case.pp_schedule) if case.pp_schedule else "1f1b"
    if (case.pp or 1) == 1 and stated == "interleaved":
        stated = "1f1b"
    return "interleaved" if stated == "1f1b" and (case.vp or 1) > 1 else stated


def _shards(case: Case, sharing: Sharing, replicas: int, context: int, node: float) -> int:
    """Return the number of data-parallel GPUs that share one copy of the parameters.

    `node` is the number of GPUs of a node divided by the number of all GPUs. The column `fsdp` may or may not
    count the GPUs of context parallelism: torchtitan has both numbers (dp_shard_cp and dp_shard).
    """
    if case.fsdp is not None:
        if case.fsdp > replicas * context:
            raise CaseError(
                f"fsdp is {case.fsdp}, but the other degrees leave fewer GPUs: "
                f"give at most {replicas * context}"
            )
        return min(case.fsdp, replicas)
    return math.gcd(replicas, max(1, int(replicas * node))) if sharing.hybrid else replicas


def _sharding(case: Case, stack: Stack, sharing: Sharing, replicas: int) -> Sharding:
    if case.zero_stage is not None:
        stage = _STAGES[case.zero_stage]
        shared = sharing.sharding not in (None, "none")
        if shared and stage != sharing.sharding and (stage == "none" or names_zero(case.sharding)):
            raise CaseError(
                f"zero_stage is {case.zero_stage}, but sharding is {quoted(case.sharding)}: "
                "leave one of them blank"
            )
        return stage
    if case.fsdp is not None and case.fsdp > 1 and sharing.sharding not in ("zero1", "zero2"):
        return "zero3"
    if sharing.sharding is not None:
        return sharing.sharding
    if stack.shards_parameters and not case.sharding:
        return "zero3" if replicas > 1 else "none"
    return "zero1" if stack.shards_optimizer else "none"


def _batch(case: Case, choice: Choice, replicas: int, assumed: int) -> tuple[int, int, int]:
    """Return micro-batch, accumulation and global batch. A stated global batch is never changed."""
    micro, batch = case.micro_batch or assumed, case.global_batch
    if batch is None:
        accumulation = case.grad_accum or _accumulated(case, choice)
        return micro, accumulation, micro * accumulation * replicas
    if case.micro_batch is None:
        micro = max(1, min(micro, batch // replicas))
    return micro, max(1, round(batch / (micro * replicas))), batch


def _divided(micro: int, batch: int, replicas: int, notes: list[str]) -> int:
    """Return the micro-batch of a rank, and append to `notes` how a smaller batch is divided.

    A batch that is only a little smaller was computed from a rounded rate.
    """
    if batch >= (1.0 - _ROUNDED) * micro * replicas:
        return micro
    words = (
        f"global_batch {batch} is less than micro_batch {micro} on {plural(replicas, 'data-parallel GPU')}"
    )
    divided = max(1, batch // replicas)
    notes.append(f"{words}: micro_batch {divided} is taken")
    return divided


def _accumulated(case: Case, choice: Choice) -> int:
    """Return the micro-batches of a step if the batch is not stated: enough to fill a pipeline, else 1."""
    stages = 1 if choice.splits_layers else case.pp or 1
    return _MICRO_BATCHES_PER_STAGE * stages if stages > 1 else 1


def _copied(case: Case, stack: Stack, gpus: int) -> int:
    """Return how many data-parallel ranks have the same sequences.

    Programs that make one mesh of all degrees count the ranks of expert parallelism apart from those of
    `fsdp`: the product of all degrees is the number of GPUs. Only `dp` and `fsdp` then divide the data
    (KempnerForge, config/distributed.py, validate_world_size).
    """
    if stack.expert_axis != "copies" or case.fsdp is None or case.dp is not None or case.ep is None:
        return 1
    degrees = (case.tp or 1) * (case.pp or 1) * (case.cp or 1) * case.fsdp * case.ep
    return case.ep if degrees == gpus else 1


def with_expert_axis(
    case: Case, stack: Stack, model: TransformerModel | VisionModel, gpus: int
) -> tuple[Case, tuple[str, ...]]:
    """Return the case with `fsdp` and `ep` converted to rigtune's way of counting, and assumptions as text.

    In MaxText, experts have a mesh axis of their own, and all other parameters are sharded over this axis too
    (configs/base.yml, logical_axis_rules: embed on fsdp and expert). If a mixture of experts has more GPUs
    than `fsdp` uses, its experts are spread over the remaining GPUs.
    """
    if (
        stack.expert_axis != "data"
        or case.fsdp is None
        or case.dp is not None
        or not isinstance(model, TransformerModel)
    ):
        return case, ()
    rest = gpus // ((case.tp or 1) * (case.pp or 1) * (case.cp or 1) * case.fsdp)
    if (
        sharing_of(case.sharding).hybrid
        or rest <= 1
        or not model.is_moe
        or model.experts % rest
        or case.ep not in (None, rest)
    ):
        return case, ()
    notes = () if case.ep else (f"ep {rest}: the GPUs that fsdp {case.fsdp} does not use",)
    return msgspec.structs.replace(case, fsdp=case.fsdp * rest, ep=rest), notes
