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
    """What the framework's allocator holds for tensors at its peak: `total` without overhead."""
    reserved: float
    """What the framework's allocator holds of the device: with freed blocks that it keeps."""
    upper: float
    """The bound that a plan must stay below: on a GPU with `margin`."""
    margin: float = 0.0
    """Of `upper` on a GPU: by how much 1 of 10 published peaks exceeded what was predicted of them
    (`recipes/predict/intervals.py`).
    """
    needed: float
    """Without what the allocator gives back when memory is short: a run that needs more than there is
    fails.
    """
    logged: float = 1.0
    """Part of these figures that the stack's log shows, where it logs another pipeline stage."""
    logged_figure: str = "allocated"
    """`allocated`, `reserved` or `device`: what the stack's users print."""


UNKNOWN_LOADING = Unknown(Reason.NOT_RECORDED, "neither storage nor data-loader was measured")


class TimeBreakdown(Record, kw_only=True):
    """One optimizer step by term, seconds. Unknown where a rate that it needs is unknown."""

    total: float | Unknown
    compute: float | Unknown
    exposed_communication: float | Unknown
    optimizer: float | Unknown
    bubble: float | Unknown = 0.0
    """Idle time of pipeline stages."""
    data: float | Unknown = UNKNOWN_LOADING
    """Waiting for the next batch, beside which all else passes; the total holds none of it where it is
    unknown.
    """
    overhead: float | Unknown = 0.0
    """What a step costs the stack whatever its size, and waiting for the slowest of the ranks."""
    low: float | Unknown
    high: float | Unknown
    products: float = 0.0
    """Of `compute`: matrix products of the layers."""
    attention: float = 0.0
    """Of `compute`: scores and values."""
    elementwise: float = 0.0
    """Of `compute`: norms, residuals, activations, routing."""
    recomputation: float = 0.0
    """Of `compute`: what the backward pass repeats of the forward pass."""
    launches: float = 0.0
    """Of `compute`: waiting for the host to launch kernels."""
    head: float = 0.0
    """Of `compute`: logits and loss."""


TIME_TERMS = ("compute", "exposed_communication", "bubble", "data", "optimizer", "overhead")
"""Fields of `TimeBreakdown` that sum to its total, those that are known."""
COMPUTE_TERMS = ("products", "attention", "elementwise", "recomputation", "launches", "head")
"""Fields of `TimeBreakdown` that sum to its `compute` where the model tells them."""


def scaled_terms(time: TimeBreakdown, factor: float) -> dict[str, float]:
    """Return the known terms of time and of compute, times a factor."""
    found = {name: getattr(time, name) for name in (*TIME_TERMS, *COMPUTE_TERMS)}
    return {name: value * factor for name, value in found.items() if not isinstance(value, Unknown)}


def terms_of(time: TimeBreakdown) -> Iterator[tuple[str, float, bool]]:
    """Name, seconds and whether it is a part of `compute`, which stands before its parts, of all that takes
    any time.
    """
    for name in TIME_TERMS:
        parts = COMPUTE_TERMS if name == "compute" else ()
        for term in (name, *parts):
            seconds = getattr(time, term)
            if not isinstance(seconds, Unknown) and seconds > 0:
                yield term.replace("_", " "), seconds, term != name


class Predicted(Record, kw_only=True):
    """What the models say of one candidate."""

    memory_bytes_per_gpu: MemoryBreakdown
    step_time_s: TimeBreakdown
    tokens_per_s_per_gpu: float | Unknown
    mfu: float | Unknown
    """Model FLOPs (6 per matmul parameter and token, causal attention) over the datasheet peak."""
