"""Checks of layouts against the layers, heads and experts that a model has."""

from probes.base.units import plural
from recipes.cases.case import CaseError
from recipes.job.candidate import Candidate
from recipes.job.workload import TransformerModel, VisionModel
from recipes.planning.space import deals_evenly, most_parts


def require_divisible(model: TransformerModel, candidate: Candidate) -> None:
    """Raise CaseError if the model's sizes do not allow a degree, or if a token uses more experts than exist.

    The message names the column.
    """
    degrees = candidate.degrees
    layers = model.layers + model.encoder_layers
    if degrees.pp > layers:
        raise CaseError(
            f"pp is {degrees.pp}, but {model.title or model.id} has {plural(layers, 'layer')}: "
            f"give at most {layers}"
        )
    if degrees.vp > 1 and degrees.pp == 1:
        raise CaseError(
            f"vp is {degrees.vp}, but pp is 1: only the stages of a pipeline have parts, leave vp blank"
        )
    most = most_parts(model, degrees.pp)
    if degrees.vp > most:
        raise CaseError(
            f"vp is {degrees.vp}, but each of {degrees.pp} pipeline stages has {layers / degrees.pp:g} "
            f"layers: give at most {most}"
        )
    if model.heads % degrees.tp:
        raise CaseError(f"tp is {degrees.tp}, which does not divide {plural(model.heads, 'attention head')}")
    if not model.is_moe:
        if degrees.ep > 1:
            raise CaseError(
                f"ep is {degrees.ep}, but {model.title or model.id} has no experts: leave it blank"
            )
        return
    if model.experts % degrees.ep:
        raise CaseError(f"ep is {degrees.ep}, which does not divide {plural(model.experts, 'expert')}")
    ranks = degrees.dp * degrees.fsdp * degrees.tp * degrees.cp
    if ranks % degrees.ep:
        stage = f" of a pipeline stage (n_gpus over pp {degrees.pp})" if degrees.pp > 1 else ""
        raise CaseError(
            f"ep is {degrees.ep}, which does not divide {plural(ranks, 'GPU')}{stage}: "
            f"choose a divisor of {ranks}, or use more GPUs"
        )
    if model.experts_per_token > model.experts:
        raise CaseError(
            f"moe_topk is {model.experts_per_token}, but the model has {plural(model.experts, 'expert')}"
        )


def require_whole_parts(candidate: Candidate, sequence_length: int, *, cuts_twice: bool) -> None:
    """Raise CaseError if context parallelism does not cut a sequence into equal parts.

    If `cuts_twice` is set, each rank has two parts (Megatron-LM, training/utils.py,
    get_batch_on_this_cp_rank; torch's context_parallel).
    """
    context = candidate.degrees.cp
    parts = context * (2 if cuts_twice else 1)
    if context > 1 and sequence_length % parts:
        near = max(parts, parts * round(sequence_length / parts))
        raise CaseError(
            f"cp is {context}, which cuts a sequence into {parts} equal parts, "
            f"but seq_len is {sequence_length}: give {near}, or another cp"
        )


def uneven_parts(model: TransformerModel, candidate: Candidate) -> tuple[str, ...]:
    """Return a note if the parts of an interleaved pipeline have different numbers of layers.

    In this case a real run needs an explicit layout.
    """
    degrees = candidate.degrees
    if degrees.vp == 1 or deals_evenly(model, degrees.pp * degrees.vp):
        return ()
    return (
        f"pp {degrees.pp} x vp {degrees.vp} does not divide {model.layers + model.encoder_layers} layers: "
        "the prediction assumes parts of different sizes",
    )


def require_whole(model: VisionModel, candidate: Candidate) -> None:
    """Raise CaseError if a layout divides the model other than by sharding its parameters (fsdp).

    An image model is known only by its numbers of parameters and FLOPs, so its layers cannot be divided.
    """
    for name in ("tp", "pp", "cp", "ep", "vp"):
        size = getattr(candidate.degrees, name)
        if size > 1:
            raise CaseError(
                f"{name} is {size}, but {model.title or model.id} can be divided only by dp and fsdp: "
                "leave it blank"
            )
