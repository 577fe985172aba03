"""Jobs that train an image model: the usual batch, optimizer and learning rate, and the reasons for them."""

import math

from recipes.constants import constant
from recipes.job.workload import Precision, VisionModel, VisionWorkload
from recipes.machine.cluster_records import Cluster
from recipes.planning.learning_rate import Rule
from recipes.planning.plan import Choice

_RATE_BATCH = 256
"""Images per step to which the constants of the learning rates apply."""
_WARMUP_SHARE = 10
"""The warm-up is at most the run divided by this number, as for other models."""
_LAYERS_SHARE = 0.5
"""Part of a model's FLOPs in linear layers above which recipes use AdamW: transformers, and ConvNeXt."""


def image_workload(
    model: VisionModel,
    cluster: Cluster,
    *,
    image_size: int | None,
    global_batch: int | None,
    precision: Precision,
    steps: int | None,
    samples: int | None,
) -> VisionWorkload:
    """Return the job with the usual batch and the usual optimizer for such models, if the user gives none."""
    batch = usual_batch(cluster.world_size) if global_batch is None else global_batch
    if steps is None:
        default = int(constant(f"default_steps_{cluster.device}"))
        steps = default if samples is None else max(1, math.ceil(samples / batch))
    return VisionWorkload(
        model=model,
        image_size=model.image_size if image_size is None or model.fixed_size else image_size,
        global_batch=batch,
        precision=precision,
        optimizer="adamw" if _uses_adamw(model) else "sgd",
        steps=steps,
    )


def usual_batch(ranks: int) -> int:
    """Return a usual number of images per step that the ranks can share.

    Large machines get a larger batch, as long as no accuracy is lost. Each rank has one image or more.
    """
    wanted = min(constant("image_images_per_rank") * ranks, constant("image_largest_batch"))
    return max(1, round(max(constant("image_batch"), wanted) / ranks)) * ranks


def _uses_adamw(model: VisionModel) -> bool:
    return model.product_flops > _LAYERS_SHARE * (model.dense_flops + model.grouped_flops)


def image_learning_rate(workload: VisionWorkload) -> Rule:
    """Return the usual rate of the optimizer, which grows in proportion to the batch (arXiv 1706.02677)."""
    is_adamw = workload.optimizer == "adamw"
    base = constant("image_adamw_rate" if is_adamw else "image_sgd_rate")
    most = constant("image_largest_batch")
    batch = workload.global_batch
    source = "arXiv 2012.12877" if is_adamw else "arXiv 1706.02677"
    because = (
        f"usual for {workload.optimizer.replace('sgd', 'SGD').replace('adamw', 'AdamW')}: {base:g} for "
        f"{_RATE_BATCH} images, in proportion to the batch ({source})"
    )
    value = float(f"{base * min(batch, most) / _RATE_BATCH:.3g}")
    if batch <= most:
        return Rule(value=value, because=because)
    return Rule(
        value=value,
        because=f"{because}, capped at a batch of {most:g} images",
        warning=f"{batch} images per step lose accuracy with the usual recipes, which end at {most:g} "
        "(arXiv 1706.02677, figure 1)",
    )


def image_warmup_steps(workload: VisionWorkload) -> Rule:
    """Return the warm-up of five epochs of ImageNet, at most a tenth of the run."""
    wanted = math.ceil(constant("image_warmup") / workload.global_batch)
    steps = max(1, min(wanted, workload.steps // _WARMUP_SHARE))
    rule = f"five epochs of ImageNet-1k (arXiv 1706.02677): {wanted} steps"
    if steps < wanted:
        rule = f"a tenth of the run of {workload.steps} steps; for a longer run: {rule}"
    return Rule(value=steps, because=rule)


def why_image_batch(workload: VisionWorkload) -> str:
    """Return the reason for the images per step."""
    usual, most = constant("image_batch"), constant("image_largest_batch")
    return (
        f"{workload.global_batch} images per step; published recipes train with {usual:g} "
        f"(arXiv 2012.12877), and without loss with up to {most:g} (arXiv 1706.02677)"
    )


def why_image_micro_batch(chosen: Choice) -> str:
    """Return the reason for the images per forward pass."""
    share = chosen.micro_batch * chosen.grad_accum
    if chosen.grad_accum == 1:
        return f"a rank's whole share of the global batch, {share} images, fits at once"
    return (
        f"{chosen.micro_batch} images per forward pass: the divisor of a rank's {share} images that fits and "
        "is the fastest"
    )
