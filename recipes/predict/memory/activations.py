"""Activations and temporaries of the loss that a pipeline stage keeps, per token of a micro-batch."""

from typing import NamedTuple

from recipes.predict.implementations import (
    Compute,
    Kept,
    SavedBytes,
    kept_by,
    load_implementations,
    root_kept,
)
from recipes.predict.memory.stages import Stage
from recipes.predict.memory.states import autocasts_loss
from recipes.predict.parameters import parameter
from recipes.predict.stacks import BEFORE_FUSED
from recipes.predict.training_job import ByKey, TransformerJob

_CHUNKED_BYTES = 2.5
"""Bytes per logit of a loss that is computed in eight chunks.

All logits, and later the gradients in their place, take 16 bits each; one chunk at a time also exists in fp32
(2 + 4 / 8 bytes; pytorch/torchtune, modules/loss/ce_chunked_output_loss.py).
"""


class Activations(NamedTuple):
    """Bytes on one stage. Those per token are of the micro-batch's tokens on one rank."""

    kept: float
    """Bytes per token and micro-batch in flight that the blocks keep for the backward pass."""
    live: float
    """Bytes per token of the layer whose backward pass runs."""
    root: float
    """Bytes per token of the final norm and the head's input."""
    logits: float
    """Bytes per token of the loss's temporaries."""
    casts: float
    """Bytes of 16-bit copies of weights at the end of the forward pass."""
    cache: float
    """The part of these copies that still exists when the backward pass begins."""
    live_cache: float
    """Bytes of the copies of the layer whose backward pass runs."""


class Saving(NamedTuple):
    """Activations of a job by stage."""

    stages: tuple[Activations, ...]
    one_size: bool
    """True if all temporary tensors of the loss have the same size."""


@ByKey
def saving_of(computed: tuple[TransformerJob, tuple[Stage, ...], Compute]) -> Saving:
    """Return what each of the job's stages keeps, for the number formats of the forward pass."""
    job, stages, compute = computed
    candidate, stack, model = job.candidate, job.stack, job.workload.model
    tensor = candidate.degrees.tp
    compiles = bool(candidate.compiled) and stack.kernels in ("eager", "upcasting")
    row = load_implementations()["compiled" if compiles else stack.implementation]
    saved = row.kept(compute)
    split_norms = tensor > 1 and job.divides_norms
    norm_ranks = tensor if split_norms else 1
    fused = fuses_attention(job)
    upcasts = autocasts_loss(job)
    kept = row.kept("autocast") if upcasts and compute in ("cast", "raised") else saved
    half = stack.memory.own_loss or (not model.raises_logits and saved.raised_logits > 0.0)
    logits = _logit_bytes(job, kept, compute, upcasts=upcasts)
    root = root_kept(model, saved, norm_ranks)
    cached = row.weight_cache_bytes.get(compute, 0.0) if job.trains_weights else 0.0
    of_stages = []
    for stage in stages:
        of_blocks = [
            kept_by(
                block,
                saved,
                rms=model.norm == "rmsnorm",
                rotary=not model.learned_positions,
                tensor=tensor,
                split_norms=split_norms,
                adapted=job.adapted,
                quantised=job.is_quantised,
                fused=fused,
                dropout=model.has_dropout,
                compiled=compiles,
            )
            for _, block in stage.blocks
        ]
        of_stages.append(
            _activations(job, stage, of_blocks, cached, saved.residual / norm_ranks)._replace(
                root=root if stage.last else 0.0, logits=logits if stage.last else 0.0
            )
        )
    return Saving(tuple(of_stages), compute == "fp32" or (half and not upcasts))


def _activations(
    job: TransformerJob, stage: Stage, of_blocks: list[Kept], cached: float, residual: float
) -> Activations:
    """Return the activations of a stage's blocks.

    `cached`: bytes of a weight's 16-bit copy. `residual`: bytes of the residual stream per unit of `hidden`.
    """
    workload, candidate, stack = job.workload, job.candidate, job.stack
    layer = checkpoints = live = 0.0
    checkpointing = candidate.activation_checkpointing
    if candidate.offload_checkpoints:
        residual = 0.0
    for (count, block), kept in zip(stage.blocks, of_blocks, strict=True):
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
    return Activations(layer + checkpoints, live, 0.0, 0.0, casts, cache, live_cache)


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
