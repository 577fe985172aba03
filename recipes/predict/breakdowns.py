"""The records of a prediction: memory and step time by term, and what follows from them.

Field names are part of the JSON contract of `rigtune plan --format json`.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Record, Unknown


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
    """Unsharded windows, buckets and communication buffers."""
    overhead: float
    """CUDA context, NCCL, allocator."""
    allocated: float
    """Bytes that the framework's allocator has given to tensors at its peak: `total` without overhead."""
    reserved: float
    """Bytes that the framework's allocator has reserved on the device, with freed blocks that it keeps."""
    upper: float
    """The bound that a plan must stay below: on a GPU with `margin`."""
    margin: float = 0.0
    """Part of `upper` on a GPU: the excess of 1 of 10 published peaks over their prediction
    (`recipes/predict/parameters.py`).
    """
    needed: float
    """Bytes that the run cannot do without: the allocator returns the rest when memory is short."""
    logged: float = 1.0
    """Part of these figures in the stack's log, if the stack logs another pipeline stage."""
    logged_figure: str = "allocated"
    """Figure that the stack's users print: `allocated`, `reserved` or `device`."""


UNKNOWN_LOADING = Unknown(Reason.NOT_RECORDED, "neither storage nor data-loader was measured")


class TimeBreakdown(Record, kw_only=True):
    """One optimizer step by term, seconds. A term is Unknown if a rate that it needs is unknown."""

    total: float | Unknown
    compute: float | Unknown
    exposed_communication: float | Unknown
    optimizer: float | Unknown
    bubble: float | Unknown = 0.0
    """Idle time of pipeline stages."""
    data: float | Unknown = UNKNOWN_LOADING
    """Time of waiting for the next batch, beside which all else runs; not in the total if unknown."""
    overhead: float | Unknown = 0.0
    """Time of a step that does not depend on its size, and of waiting for the slowest rank."""
    low: float | Unknown
    high: float | Unknown
    products: float = 0.0
    """Part of `compute` in matrix products of the layers."""
    attention: float = 0.0
    """Part of `compute` in scores and values."""
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
"""Fields of `TimeBreakdown` that sum to its `compute` if the model reports them."""


def scaled_terms(time: TimeBreakdown, factor: float) -> dict[str, float]:
    """Return the known terms of time and of compute, times a factor."""
    terms = {name: getattr(time, name) for name in (*TIME_TERMS, *COMPUTE_TERMS)}
    return {name: value * factor for name, value in terms.items() if not isinstance(value, Unknown)}


def terms_of(time: TimeBreakdown) -> Iterator[tuple[str, float, bool]]:
    """Yield name, seconds and whether it is a part of `compute`, for all terms above 0.

    `compute` precedes its parts.
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
    mfu: float | Unknown
    """Model FLOPs (6 per matmul parameter and token, causal attention) over the datasheet peak."""
