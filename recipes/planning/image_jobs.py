"""Jobs that train an image model: the usual batch and optimizer, and the reason for the micro-batch."""

import math

from probes.base.units import plural
from recipes.constants import constant
from recipes.job.pins import Pins
from recipes.job.workload import Optimizer, Precision, VisionModel, VisionWorkload
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import Choice
from recipes.settings.recipe_choice import known_for, usual_samples
from recipes.settings.setting import NOTHING_STATED, Stated

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
    optimizer: Optimizer | None = None,
    stated: Stated = NOTHING_STATED,
    pins: Pins | None = None,
) -> VisionWorkload:
    """Return the job with the usual batch and the usual optimizer for such models, if the user gives none."""
    chosen = optimizer or ("adamw" if _uses_adamw(model) else "sgd")
    batch = global_batch
    if batch is None:
        batch = _open_batch(model, cluster.world_size, chosen, stated)
        pins = pins or Pins()
        multiple = pins.batch_multiple(cluster.world_size)
        is_implied = pins.micro_batch is not None and pins.grad_accum is not None
        batch = multiple if is_implied else max(1, round(batch / multiple)) * multiple
    if steps is None:
        default = int(constant(f"default_steps_{cluster.device}"))
        steps = default if samples is None else max(1, math.ceil(samples / batch))
    return VisionWorkload(
        model=model,
        image_size=model.image_size if image_size is None or model.fixed_size else image_size,
        global_batch=batch,
        precision=precision,
        optimizer=chosen,
        steps=steps,
    )


def _open_batch(model: VisionModel, ranks: int, optimizer: Optimizer, stated: Stated) -> int:
    """Return the images per step if the user gives none: a stated batch, or the usual one."""
    job = VisionWorkload(model=model, image_size=model.image_size, global_batch=1, optimizer=optimizer)
    known = known_for(job, stated)
    if known.basis == "user" or stated.noise_scale is not None or stated.training_recipe:
        return max(1, round(usual_samples(known, 1, stated) / ranks)) * ranks
    return usual_batch(ranks, known.recipe.largest_batch)


def usual_batch(ranks: int, largest: float) -> int:
    """Return a usual number of images per step that the ranks can share.

    Large machines get a larger batch, up to the `largest` that loses no accuracy. Each rank has one image or
    more.
    """
    wanted = min(constant("image_images_per_rank") * ranks, largest)
    return max(1, round(max(constant("image_batch"), wanted) / ranks)) * ranks


def _uses_adamw(model: VisionModel) -> bool:
    return model.product_flops > _LAYERS_SHARE * (model.dense_flops + model.grouped_flops)


def why_image_micro_batch(chosen: Choice) -> str:
    """Return the reason for the images per forward pass."""
    share = chosen.micro_batch * chosen.grad_accum
    if chosen.grad_accum == 1:
        return f"a rank's whole share of the global batch, {plural(share, 'image')}, fits at once"
    return (
        f"{plural(chosen.micro_batch, 'image')} per forward pass: the divisor of a rank's "
        f"{plural(share, 'image')} that fits and is the fastest"
    )
