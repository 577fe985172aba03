"""Options of a plan that image models do not have."""

from typing import TYPE_CHECKING

from probes.base.errors import UsageError
from recipes.job.workload import NARROW_PRECISIONS, VisionModel

if TYPE_CHECKING:
    from assistant.usecases.plan import PlanRequest

_LARGEST_IMAGE = 16384
"""Maximum side of an image in pixels: several times the largest images that models are trained on."""


def require_image_settings(model: VisionModel, request: "PlanRequest") -> None:
    """Raise UsageError for settings that image models do not have, and for impossible sizes of images."""
    size = request.image_size
    mistakes = (
        (request.sequence_length is not None, "--sequence-length", "give --image-size"),
        (request.tokens is not None, "--tokens", "give --samples, the number of images"),
        (
            request.tuning != "full",
            f"--tuning {request.tuning}",
            "only transformers are trained with adapters",
        ),
        (request.fine_tuning is True, "--task fine-tuning", "give --known-batch and --known-lr"),
        (request.lora_rank is not None, "--lora-rank", "only transformers are trained with adapters"),
        (
            request.precision in NARROW_PRECISIONS,
            f"--precision {request.precision}",
            "image models are trained in bf16, fp16 or fp32",
        ),
    )
    for is_given, option, hint in mistakes:
        if is_given:
            raise UsageError(f"{model.id} is an image model, which has no {option}", hint)
    if size is None:
        return
    if not model.image_size:
        raise UsageError(
            f"the work of {model.id[-60:]} was counted for its own input, so --image-size cannot change it",
            "leave --image-size out",
        )
    if model.fixed_size and size != model.image_size:
        raise UsageError(
            f"{model.id} takes images of {model.image_size} pixels, not {size}", "leave --image-size out"
        )
    if size > _LARGEST_IMAGE:
        raise UsageError(f"--image-size is {size} pixels", f"give at most {_LARGEST_IMAGE}")
