"""The user's own module as a model.

Its counts come from the worker `rigtune_worker.count`, which runs the module on torch's meta device.
"""

import msgspec

from probes.base.errors import InputError
from probes.base.record import Record, from_json
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
    """Return whether a model's name is a Python file, with or without `:function` at the end."""
    return (text.rpartition(":")[0] or text).endswith(".py")


def counted_model(text: bytes | str, target: str) -> VisionModel:
    """Return the model with the counts in the worker's answer about `target`.

    The counts are for one sample if the user's function has the parameter `micro_batch`, else for the whole
    input. The model has no image size: its counts are valid for the inputs that the user's function makes.
    Raises InputError if the worker failed (with its message), if `text` is not an answer, or if the counts
    are zero or negative.
    """
    try:
        answer = from_json(text, _Answer)
    except msgspec.DecodeError as error:
        raise InputError(f"the count of {target} is unreadable: {error}", "count the module again") from error
    counts = answer.per_sample
    if answer.event != "counted" or counts is None:
        raise InputError(f"{target} cannot be counted: {answer.message or 'no answer'}", _CONTRACT)
    each = msgspec.structs.asdict(counts)
    if not any(each.values()) or min(each.values()) < 0:
        if not answer.takes_micro_batch:
            raise InputError(f"{target} cannot be counted: it does no work that rigtune counts", _CONTRACT)
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


_CONTRACT = "assistant/docs/own_module.md describes what the function must return"


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
