"""Layouts that are possible for a case, in the order in which people usually try them.

`recipes/cases/resolved.py` uses the first layout that fits. If a case states nothing about its layout,
`recipes/planning/search.py` searches for a layout instead.
"""

from collections.abc import Iterator

import msgspec

from probes.base.record import Record
from recipes.cases.case import Case
from recipes.cases.table_words import sharing_of
from recipes.job.candidate import ActivationCheckpointing, Sharding
from recipes.job.workload import TransformerModel
from recipes.predict.stacks import Stack

_LONG_SEQUENCE = 8192
"""Sequence length in tokens from which people split the sequence before they split matrices further."""
_WIDEST_TENSOR = 8
_RECOMPUTED = (0.25, 0.5, 0.75, 1.0)
"""Fractions of the layers that people recompute; they use the smallest with which the run fits."""


class Choice(Record, kw_only=True):
    """Values for degrees, sharding and checkpointing that a case does not state."""

    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    sharding: Sharding | None = None
    splits_layers: bool = False
    checkpointing: ActivationCheckpointing | None = None
    recomputed: float = 1.0
    """Fraction of the layers that are recomputed if `checkpointing` is full."""

    @property
    def words(self) -> str:
        if self.splits_layers:
            return f"each of the {self.pp} GPUs is assumed to have consecutive layers of one model"
        sizes = (("tp", self.tp), ("pp", self.pp), ("cp", self.cp))
        degrees = [f"{name} {value}" for name, value in sizes if (value or 1) > 1]
        return " ".join([*degrees, *([f"sharding {self.sharding}"] if self.sharding else [])])


def choices_of(case: Case, stack: Stack, gpus: int, *, model: TransformerModel | None) -> tuple[Choice, ...]:
    """Return the possible choices for the row, the most usual first; an empty choice if nothing is open.

    `model` is None for image models: their layers are not recomputed, and only their batch is divided.
    If the row does not state recomputation, the stack's default comes first; a stack that recomputes nothing
    by default recomputes layers only if the run would not fit otherwise. If the stack can recompute a part of
    the layers, smaller parts come first.
    """
    layouts = _layouts(case, stack, gpus)
    if case.activation_checkpointing or stack.checkpointing == "full" or model is None:
        return layouts
    recomputed = (
        msgspec.structs.replace(layout, checkpointing="full", recomputed=share)
        for share in (_RECOMPUTED if stack.recomputes_part else (1.0,))
        for layout in layouts
    )
    return (*layouts, *recomputed)


def _layouts(case: Case, stack: Stack, gpus: int) -> tuple[Choice, ...]:
    if gpus == 1:
        return (Choice(),)
    spare = _spare_ranks(case, gpus)
    if sharing_of(case.sharding).splits_layers or (spare == gpus and stack.spare_ranks == "layers"):
        return (Choice(pp=gpus, splits_layers=True),)
    stated = case.sharding or case.zero_stage is not None or case.dp is not None or case.fsdp is not None
    if spare > 1:
        parts = 1 if stack.spare_ranks == "sequence" else 2
        spread = tuple(
            choice
            for choice in _spread(case, stack, spare)
            if not choice.cp or (case.seq_len or 0) % (parts * choice.cp) == 0
        ) or (Choice(),)
        if stated or stack.shards_optimizer or stack.shards_parameters:
            return spread
        return (*spread, *(msgspec.structs.replace(choice, sharding="zero3") for choice in spread))
    if not stated and not stack.shards_optimizer and not stack.shards_parameters:
        return (Choice(), Choice(sharding="zero2"), Choice(sharding="zero3"))
    # Ranks that divide the tokens of a sequence may share the weights with any sharding.
    shares_freely = not stated and case.tp is None and case.pp is None
    return (Choice(), Choice(sharding="zero3")) if shares_freely else (Choice(),)


def is_open(case: Case) -> bool:
    """Return whether the row states nothing about how GPUs share the model, except perhaps `ep` above 1."""
    degrees = (case.tp, case.pp, case.cp, case.dp, case.fsdp, case.vp, case.zero_stage)
    return not case.sharding and case.ep != 1 and all(degree is None for degree in degrees)


def _spare_ranks(case: Case, gpus: int) -> int:
    """Return how many GPUs process one sequence of a micro-batch together; these GPUs share one model copy.

    If a row states its sharding, its micro-batch and accumulation may be wrong, so only the global batch is
    used.
    """
    has_degrees = case.dp is not None or case.fsdp is not None or None not in (case.tp, case.cp, case.pp)
    if case.global_batch is None or has_degrees:
        return 1
    replicas = gpus // ((case.tp or 1) * (case.pp or 1) * (case.cp or 1))
    at_once = 1 if case.sharding or case.zero_stage else (case.micro_batch or 1) * (case.grad_accum or 1)
    needed = max(1, case.global_batch // at_once)
    return replicas // needed if needed < replicas and replicas % needed == 0 else 1


def _spread(case: Case, stack: Stack, ranks: int) -> Iterator[Choice]:
    """Yield the ways in which `ranks` GPUs share one sequence."""
    if stack.spare_ranks == "sequence" and case.cp is None:
        yield Choice(cp=ranks)
        return
    is_long = (case.seq_len or 0) >= _LONG_SEQUENCE
    for tensor in (1, 2, 4, 8):
        context = ranks // tensor
        if (
            ranks % tensor
            or (tensor > 1 and case.tp is not None)
            or (context > 1 and (case.cp is not None or not is_long))
        ):
            continue
        yield Choice(tp=tensor if case.tp is None else None, cp=context if context > 1 else None)
    if case.tp is None and case.pp is None and ranks > _WIDEST_TENSOR and ranks % _WIDEST_TENSOR == 0:
        yield Choice(tp=_WIDEST_TENSOR, pp=ranks // _WIDEST_TENSOR)
    if case.cp is None and not is_long and (case.tp is not None or ranks > _WIDEST_TENSOR):
        yield Choice(cp=ranks)


def micro_batches_of(case: Case, stack: Stack, gpus: int, enough: int) -> tuple[int, ...]:
    """Return the micro-batches to try, in order, for a case that does not state one.

    A stated accumulation determines the size. Otherwise the stack's default is used if a GPU's share of the
    batch is large enough. Without a default, a micro-batch of a pipeline has one sequence, because a pipeline
    needs many micro-batches. In all other cases the sizes are powers of two up to `enough`, above which
    nothing is faster, the largest first. If only small powers of two divide a GPU's share, all divisors of
    the share up to `enough` are tried.
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
    if share is None:
        return tuple(powers)
    whole = [size for size in powers if share % size == 0]
    return tuple(whole if 4 * whole[0] > most else (size for size in range(most, 0, -1) if share % size == 0))


def with_choice(case: Case, choice: Choice) -> Case:
    """Return the case with the degrees of the choice filled in."""
    return msgspec.structs.replace(
        case,
        tp=choice.tp or case.tp,
        pp=choice.pp or case.pp,
        cp=choice.cp or case.cp,
    )
