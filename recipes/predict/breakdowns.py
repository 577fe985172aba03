"""The records of a prediction: memory and step time by term, and the figures derived from these terms.

Field names are part of the JSON contract of `rigtune plan --format json`.
"""

from collections.abc import Iterator

from probes.base.record import Reason, Record, Unknown
from probes.base.units import gib


class MemoryBreakdown(Record, kw_only=True):
    """Peak memory of the fullest rank by term, bytes."""

    total: float
    """Device memory, the sum of the terms."""
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    buffers: float
    """Memory of unsharded windows, buckets and communication buffers."""
    overhead: float
    """Memory of the CUDA context, NCCL and the allocator; on a CPU of the process and its unused heap."""
    allocated: float
    """Bytes that the framework's allocator has given to tensors at the peak.

    This is the maximum over all pipeline stages. On a CPU it includes the heap that the C library keeps.
    """
    reserved: float
    """Bytes that the framework's allocator has reserved on the device, including the freed blocks that it
    keeps.
    """
    upper: float
    """Upper estimate of the needed device memory.

    A plan is recommended only if this estimate fits. On a GPU the estimate includes `margin`.
    """
    margin: float = 0.0
    """Part of `upper` on a GPU: 1 of 10 published peaks exceeds its prediction by more than this
    (`recipes/predict/parameters.py`).
    """
    needed: float
    """Bytes that the run cannot do without: the allocator returns the rest when memory is short.

    A run fits if the device has these bytes.
    """
    logged: float = 1.0
    """Part of these figures that the stack's log shows; below 1 if it shows a stage with less memory."""
    logged_figure: str = "allocated"
    """Memory figure that users of the stack usually print: `allocated`, `reserved` or `device`."""


MEMORY_TERMS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead")
"""Fields of `MemoryBreakdown` that sum to its total."""


def memory_words(allocated: float, reserved: float, worst: float) -> str:
    """Return the three memory figures of a rank as text; all pages and scripts use this text."""
    return f"{gib(allocated)} allocated, {gib(reserved)} reserved, worst case {gib(worst)}"


UNKNOWN_LOADING = Unknown(Reason.NOT_RECORDED, "neither storage nor data-loader was measured")


class TimeBreakdown(Record, kw_only=True):
    """One optimizer step by term, seconds.

    If a rate or a latency that the step needs is unknown, all fields without a default are Unknown.
    """

    total: float | Unknown
    compute: float | Unknown
    exposed_communication: float | Unknown
    optimizer: float | Unknown
    bubble: float | Unknown = 0.0
    """Idle time of pipeline stages."""
    data: float | Unknown = UNKNOWN_LOADING
    """Time that a step waits for data after all other work; not in the total if unknown."""
    overhead: float | Unknown = 0.0
    """Constant time of each step and of each micro-batch, and time of waiting for the slowest rank."""
    low: float | Unknown
    high: float | Unknown
    products: float = 0.0
    """Part of `compute` in matrix products of the layers."""
    attention: float = 0.0
    """Part of `compute` in attention scores and weighted values."""
    elementwise: float = 0.0
    """Part of `compute` in norms, residuals, activations and routing."""
    recomputation: float = 0.0
    """Part of `compute` in which the backward pass repeats the forward pass."""
    launches: float = 0.0
    """Part of `compute` in which the device waits for kernel launches."""
    head: float = 0.0
    """Part of `compute` in logits and loss."""


TIME_TERMS = ("compute", "exposed_communication", "bubble", "data", "optimizer", "overhead")
"""Fields of `TimeBreakdown` whose known values sum to its total."""
COMPUTE_TERMS = ("products", "attention", "elementwise", "recomputation", "launches", "head")
"""Fields of `TimeBreakdown` that sum to its `compute` for transformers; all are 0 for image models."""


def scaled_terms(time: TimeBreakdown, factor: float) -> dict[str, float]:
    """Return the known terms of time and of compute, times a factor."""
    terms = {name: getattr(time, name) for name in (*TIME_TERMS, *COMPUTE_TERMS)}
    return {name: value * factor for name, value in terms.items() if not isinstance(value, Unknown)}


def terms_of(time: TimeBreakdown) -> Iterator[tuple[str, float, bool]]:
    """Yield name, seconds and whether the term is a part of `compute`, for all terms above 0.

    `compute` comes before its parts.
    """
    for name in TIME_TERMS:
        for term in (name, *(COMPUTE_TERMS if name == "compute" else ())):
            seconds = getattr(time, term)
            if not isinstance(seconds, Unknown) and seconds > 0:
                yield term.replace("_", " "), seconds, term != name


class Predicted(Record, kw_only=True):
    """Predictions of the models for one candidate."""

    memory_bytes_per_gpu: MemoryBreakdown
    step_time_s: TimeBreakdown
    tokens_per_s_per_gpu: float | Unknown
    """Tokens per second of one rank; Unknown for image models, which have no tokens."""
    samples_per_s: float | Unknown = Unknown(Reason.NOT_RECORDED)
    """Sequences or images per second of all ranks."""
    mfu: float | Unknown
    """Model FLOPs per second and rank, divided by the datasheet peak.

    Transformers need 6 FLOPs per matmul parameter and token, and those of attention; image models need three
    times the FLOPs of a forward pass.
    """
