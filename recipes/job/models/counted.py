"""The user's own module, with the counts of the worker on the meta device (`rigtune_worker.count`)."""

from __future__ import annotations

import msgspec

from probes.base.errors import InputError
from probes.base.record import Record
from recipes.job.workload import VisionModel


class _PerSample(Record, kw_only=True):
    forward_flops: float
    dense_flops: float
    grouped_flops: float
    product_flops: float = 0.0
    spatial_flops: float = 0.0
    depthwise_flops: float = 0.0
    convolution_elements: float
    matrix_elements: float
    depthwise_elements: float
    pointwise_elements: float
    saved_elements: float


class _Answer(Record, kw_only=True):
    event: str
    message: str = ""
    parameters: dict[str, int] = {}
    trainable_parameters: int | None = None
    block_parameters: int = 0
    root_parameters: int = 0
    operators: float = 0.0
    micro_batch: int = 1
    takes_micro_batch: bool = False
    per_sample: _PerSample | None = None


def names_own_module(text: str) -> bool:
    """Return whether a model's name is a Python file, with or without `:function` behind it."""
    return (text.rpartition(":")[0] or text).endswith(".py")


def counted_model(text: bytes | str, target: str) -> VisionModel:
    """Return the model of counts that the worker's answer about `target` describes.

    The counts are of one sample if the function takes `micro_batch`. Such a model has no image size: its
    figures hold for the inputs that the user's function makes. Raises InputError with the worker's message if
    it failed, or if `text` is no answer.
    """
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except msgspec.MsgspecError as error:
        raise InputError(f"the count of {target} is unreadable: {error}", "count the module again") from error
    counts = answer.per_sample
    if answer.event != "counted" or counts is None:
        raise InputError(f"{target} cannot be counted: {answer.message or 'no answer'}", _CONTRACT)
    each = msgspec.structs.asdict(counts)
    if not any(each.values()) or min(each.values()) < 0:
        raise InputError(
            f"{target} cannot be counted: its work does not grow with micro_batch",
            "make inputs of micro_batch samples",
        )
    return VisionModel(
        id=target,
        title=target,
        parameters=sum(answer.parameters.values()),
        block_parameters=answer.block_parameters,
        root_parameters=answer.root_parameters,
        image_size=0,
        fixed_size=True,
        operators=round(answer.operators),
        source=_source(answer),
        date="",
        **each,
    )


_CONTRACT = "assistant/docs/own_module.md says what the function returns"


def _source(answer: _Answer) -> str:
    words = "counted on the meta device"
    words += (
        f" at micro-batch {answer.micro_batch}"
        if answer.takes_micro_batch
        else ", its whole input as one sample"
    )
    frozen = (
        0
        if answer.trainable_parameters is None
        else sum(answer.parameters.values()) - answer.trainable_parameters
    )
    return (
        f"{words}, {frozen} frozen parameters with gradients and states as if they were trained"
        if frozen
        else words
    )
