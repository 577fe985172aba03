"""Rates of matrix products and attention by shape.

A kernel's time follows from a rate that was measured on the machine, or else from the datasheet's peak.

For other modules:

    rates = product_rates(cluster, "bf16")            # ProductRates | Unknown; cached by its inputs
    product_time_s(rates, m, n, k)                    # seconds of one product of m x k by k x n
    training_time_s(rates, tokens, inputs, outputs)   # seconds of a linear layer's (forward, input gradient,
                                                      # weight gradient)
    alignment_share(rates, inputs, outputs)           # part of the rate left by widths that do not fill lines
                                                      # of memory
    grouped_training_time_s(rates, tokens, inputs, outputs, experts)   # as training_time_s, for all experts
                                                                       # of one rank
    attention = attention_rates(cluster, "bf16", "flash2")
    attention_time_s(attention, sequences=1, heads=32, kv_heads=8, queries=4096, keys=4096,
                     query_key_dim=128, value_dim=128, causal=True, window=0)
                                                      # seconds of (forward, backward) of one layer

No time falls when a size grows. All times are continuous, except in the width of a head: FlashAttention-2 has
kernels for a few widths only.

A product's time has three parts: the work for its output, the idle multiprocessors in the last wave of tiles,
and the filling of the pipeline along k. The time is at least that of moving the operands to and from memory.
A kernel costs a fixed time to start and drain. The sustained rate depends on the power that a GPU may draw
per peak FLOP: if this power is low, clocks fall with about its square root. Narrow precisions also cost the
time of casting activations.
"""

import functools
import math
from typing import Literal, NamedTuple

from probes.base.record import Reason, Unknown
from probes.catalogue.hardware import GpuModel, load_catalogue
from recipes.machine.cluster_records import Cluster
from recipes.predict.parameters import parameter

TILE = 128
"""Edge of a tile of output that one multiprocessor computes at a time."""
_DTYPES = {
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "mxfp8": ("mxfp8", "fp8"),
    "nvfp4": ("nvfp4", "fp4"),
}
"""Names of the measured and peak rates that are used for a precision, best first."""
_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.03, "nvfp4": 0.56}
"""Bytes of one element of an operand, including its share of the scales."""
_CAST = frozenset({"fp8", "mxfp8", "nvfp4"})

_LINE_BYTES, _VECTOR_BYTES = 128, 16
"""Bytes of a line of memory, and of one load of a thread."""
_CUDNN_FIRST = ("sm100", "sm103")

AttentionKernel = Literal["flash2", "flash3", "cudnn", "unfused"]


class ProductRates(NamedTuple):
    """Properties that, with the shape, determine a matrix product's time."""

    flops_per_s: float
    """Sustained rate of a product without losses at its edges."""
    bytes_per_s: float
    operand_bytes: float
    idle_elements: float
    """Output elements that idle multiprocessors could have computed in the last, partly filled wave."""
    prologue_k: float
    """Filling of the pipeline, as a length of k that takes the same time."""
    cast_s: float
    """Seconds to cast one element of an activation to the operand's type."""
    launch_s: float
    grouped_share: float
    """Rate of a grouped product divided by the rate of a dense product with the same tiles."""
    grouped_idle_rows: float
    """Unused rows that the last tile of each group computes."""
    group_s: float
    """Constant time that each group adds, seconds."""
    line_share: float = 1.0
    """Part of the rate that remains if rows of an operand are not whole lines of 128 bytes."""
    vector_share: float = 1.0
    """Part of the rate that remains if rows are not whole vectors of 16 bytes either."""


class AttentionRates(NamedTuple):
    """Properties that, with the shape, determine the time of one layer's attention."""

    forward_flops_per_s: float
    backward_flops_per_s: float
    bytes_per_s: float
    idle_rows: float
    """Query rows that idle multiprocessors could have computed in the last, partly filled wave of the forward
    pass.
    """
    backward_idle_rows: float
    prologue_keys: float
    """Start and end of a tile, as a number of keys per row that takes the same time."""
    score_bytes: float
    """Bytes of memory traffic per score and forward pass; 0 if scores stay on the chip."""
    softmax_dims: float
    """Number of head dimensions whose products take as long as the exponential of a score."""
    launch_s: float
    pads_heads: bool = False
    """True if a head is computed at the next larger width for which the kernel was compiled."""


class _Machine(NamedTuple):
    gpu: str
    architecture: str
    device: str
    peak_flops_per_s: float
    measured_flops_per_s: float
    memory_bytes_per_s: float


@functools.lru_cache(maxsize=256)
def _row(gpu: str) -> GpuModel | None:
    return load_catalogue().gpu(gpu) if gpu else None


def _chip(gpu: str, architecture: str) -> str:
    """Return the chip generation that is the key of parameters: `sm90`, `gfx942`, else the architecture."""
    row = _row(gpu)
    if row is None:
        return architecture
    digits = row.compute_capability.replace(".", "")
    return f"sm{digits}" if digits.isdigit() else row.compute_capability


def product_rates(cluster: Cluster, precision: str, *, share: float = 1.0) -> ProductRates | Unknown:
    """Return the rates of matrix products on one rank.

    `share` is the part of a benchmark's rate that a training step sustains. The result is Unknown if the
    memory bandwidth is unknown, or if the machine has neither a measured rate nor a known peak.
    """
    memory = cluster.memory_bandwidth_bytes_per_s
    if memory is None:
        return Unknown(Reason.NOT_RECORDED, f"memory bandwidth of {cluster.device_name}")
    names = _DTYPES.get(precision, (precision,))
    measured = next(
        (
            figure.value
            for name in names
            if (figure := cluster.flops_per_s.get(name)) and figure.basis == "measured"
        ),
        0.0,
    )
    peak = next((figure.value for name in names if (figure := cluster.peak_flops_per_s.get(name))), 0.0)
    if not measured and not peak:
        return Unknown(Reason.NOT_RECORDED, f"{precision} rate of {cluster.device_name}")
    machine = _Machine(
        cluster.gpu, cluster.architecture, cluster.device, peak * share, measured * share, memory.value
    )
    return _product_rates(machine, precision)


@functools.lru_cache(maxsize=1024)
def _product_rates(machine: _Machine, precision: str) -> ProductRates:
    gpu, architecture, memory = machine.gpu, machine.architecture, machine.memory_bytes_per_s
    chip = _chip(gpu, architecture)
    keys = (f"{chip}.{precision}", chip, precision)
    rate = machine.measured_flops_per_s or machine.peak_flops_per_s * sustained_fraction(
        gpu, architecture, precision
    )
    if machine.device == "cpu":
        return ProductRates(rate, memory, _BYTES.get(precision, 4.0), 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    row = _row(gpu)
    multiprocessors = (row.multiprocessors if row else None) or parameter("gemm.multiprocessors", chip)
    bytes_per_s = memory * parameter("gemm.memory_fraction", chip)
    return ProductRates(
        flops_per_s=rate,
        bytes_per_s=bytes_per_s,
        operand_bytes=_BYTES.get(precision, 2.0),
        idle_elements=parameter("gemm.idle_waves", *keys) * multiprocessors * TILE * TILE,
        prologue_k=parameter("gemm.prologue_k", *keys),
        cast_s=parameter("gemm.cast_bytes", *keys) / bytes_per_s if precision in _CAST else 0.0,
        launch_s=parameter(
            "gemm.launch_s", f"{chip}.{precision}", *((precision, chip) if precision in _CAST else (chip,))
        ),
        grouped_share=parameter("gemm.grouped_share", chip),
        grouped_idle_rows=parameter("gemm.grouped_idle_rows", chip),
        group_s=parameter("gemm.group_s", chip),
        line_share=parameter("gemm.line_share", chip),
        vector_share=parameter("gemm.vector_share", chip),
    )


def sustained_fraction(gpu: str, architecture: str, precision: str) -> float:
    """Return the part of the datasheet's peak that long products sustain.

    It depends on chip and precision and, except for fp32, on the power that the GPU may draw per peak FLOP.
    """
    chip = _chip(gpu, architecture)
    largest = parameter("gemm.max_fraction", f"{chip}.{precision}", "fp32" if precision == "fp32" else chip)
    factor = parameter("gemm.datasheet_factor", gpu) if precision != "fp32" else 1.0
    if precision == "fp32":
        return largest
    share = power_share(gpu, architecture, factor)
    return largest if share is None else factor * largest * math.pow(share, parameter("gemm.power_exponent"))


def power_share(gpu: str, architecture: str, factor: float = 1.0) -> float | None:
    """Return the available watts per sustained 16-bit FLOP, divided by the watts that the chip needs at its
    full clock.

    `factor` times the datasheet's FLOPs are sustained. The result is at most 1; None if the catalogue lacks
    the GPU, its watts or its 16-bit peak.
    """
    row = _row(gpu)
    peak = (row.peak_flops_per_s.get("bf16") or row.peak_flops_per_s.get("fp16")) if row else None
    watts = row.power_limit_w if row else None
    if not peak or not watts:
        return None
    return min(
        1.0,
        watts / (factor * peak / 1e12) / parameter("gemm.full_power_w_per_tflops", _chip(gpu, architecture)),
    )


def product_time_s(rates: ProductRates, m: float, n: float, k: float, *, output_bytes: float = 2.0) -> float:
    """Return the seconds of one product of m x k by k x n.

    `output_bytes` are moved per element of the result (8 if the product is added to an fp32 result).
    """
    busy = 2.0 * (m * n + rates.idle_elements) * (k + rates.prologue_k) / rates.flops_per_s
    moved = ((m + n) * k * rates.operand_bytes + m * n * output_bytes) / rates.bytes_per_s
    return (busy if busy > moved else moved) + m * k * rates.cast_s + rates.launch_s


def alignment_share(rates: ProductRates, *widths: float) -> float:
    """Return the part of the rate that remains if a weight's widths do not align 16-bit rows with lines of
    memory. This factor is separate because one unit more or less may cost a third of the rate. Frameworks pad
    rows of narrower types, or reject them. A width that ranks cannot divide evenly is padded too.
    """
    lengths = [width * rates.operand_bytes for width in widths if width == int(width)]
    if rates.operand_bytes != 2.0 or all(length % _LINE_BYTES == 0 for length in lengths):
        return 1.0
    return rates.line_share if all(length % _VECTOR_BYTES == 0 for length in lengths) else rates.vector_share


def training_time_s(
    rates: ProductRates, tokens: float, inputs: float, outputs: float, *, gradient_bytes: float = 2.0
) -> tuple[float, float, float]:
    """Return the seconds of a linear layer's forward pass, input gradient and weight gradient.

    `gradient_bytes`: traffic per element of the weight's gradient, 2 if it is written in bf16, 8 if it is
    added to fp32.
    """
    return (
        product_time_s(rates, tokens, outputs, inputs),
        product_time_s(rates, tokens, inputs, outputs),
        product_time_s(rates, outputs, inputs, tokens, output_bytes=gradient_bytes),
    )


def grouped_training_time_s(
    rates: ProductRates,
    tokens: float,
    inputs: float,
    outputs: float,
    experts: float,
    *,
    gradient_bytes: float = 2.0,
) -> tuple[float, float, float]:
    """Return the times of `training_time_s` for `experts` weights of one shape in one grouped kernel.

    `tokens` copies of tokens are divided among these experts.
    """
    rows = tokens + experts * rates.grouped_idle_rows
    rate = rates.flops_per_s * rates.grouped_share
    weights = experts * inputs * outputs

    def time_s(busy: float, moved_bytes: float, cast: float) -> float:
        busy_s, moved_s = 2.0 * busy / rate, moved_bytes / rates.bytes_per_s
        return (
            (busy_s if busy_s > moved_s else moved_s)
            + cast * rates.cast_s
            + rates.launch_s
            + experts * rates.group_s
        )

    ends = tokens * (inputs + outputs)
    forward = (rows * outputs + rates.idle_elements) * (inputs + rates.prologue_k)
    backward = (rows * inputs + rates.idle_elements) * (outputs + rates.prologue_k)
    weight = (weights + rates.idle_elements) / experts * (rows + experts * rates.prologue_k)
    moved = weights * rates.operand_bytes + ends * 2.0
    return (
        time_s(forward, moved, tokens * inputs),
        time_s(backward, moved, tokens * outputs),
        time_s(weight, weights * gradient_bytes + ends * 2.0, 0.0),
    )


def prefers_cudnn(cluster: Cluster) -> bool:
    """Return whether torch by itself chooses cuDNN's attention, which is written for the chip.

    Torch does so if the compute capability is 10 (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp,
    check_prefer_cudnn_attention).
    """
    return _chip(cluster.gpu, cluster.architecture) in _CUDNN_FIRST


def attention_rates(
    cluster: Cluster, precision: str, kernel: AttentionKernel, *, share: float = 1.0, sequence: float = 0.0
) -> AttentionRates | Unknown:
    """Return the rates of attention on one rank; scores are computed in 16 bits if matrix products use fewer.

    The result is Unknown as in `product_rates`. If both passes of fused attention were measured on this
    machine, the FLOP rates are those of the measured length that is nearest to `sequence`. A what-if question
    may change both rates (`cluster.attention_factor`).
    """
    wide = "bf16" if precision in _CAST else precision
    products = product_rates(cluster, wide, share=share)
    if isinstance(products, Unknown):
        return products
    rates = _attention_rates((cluster.gpu, cluster.architecture, cluster.device), wide, kernel, products)
    if cluster.attention_rates and kernel != "unfused":
        rates = _as_measured(rates, cluster, wide, share=share, sequence=sequence)
    if cluster.attention_factor == 1.0:
        return rates
    return rates._replace(
        forward_flops_per_s=rates.forward_flops_per_s * cluster.attention_factor,
        backward_flops_per_s=rates.backward_flops_per_s * cluster.attention_factor,
    )


def _as_measured(
    rates: AttentionRates, cluster: Cluster, precision: str, *, share: float, sequence: float
) -> AttentionRates:
    """Return the rates that give the measured times at the nearest length; unchanged without both passes.

    Exponentials are scaled separately, because their time does not depend on the head's width. On a CPU
    exponentials take most of the time, so a measurement in any precision can be used.
    """
    names = _DTYPES.get(precision, (precision,))
    flops_per_s = {}
    for backward in (False, True):
        of_pass = [rate for rate in cluster.attention_rates if rate.backward is backward]
        points = [rate for rate in of_pass if rate.precision in names]
        if not points and cluster.device == "cpu":
            points = of_pass
        if points:
            point = min(points, key=lambda rate: abs(math.log(rate.sequence_length / max(sequence, 1.0))))
            flops_per_s[backward] = point.flops_per_s * (1.0 + rates.softmax_dims / point.head_dim) * share
    if len(flops_per_s) < 2:
        return rates
    return rates._replace(
        forward_flops_per_s=flops_per_s[False],
        backward_flops_per_s=flops_per_s[True],
        idle_rows=0.0,
        prologue_keys=0.0,
        backward_idle_rows=0.0,
    )


@functools.lru_cache(maxsize=1024)
def _attention_rates(
    machine: tuple[str, str, str], precision: str, kernel: AttentionKernel, products: ProductRates
) -> AttentionRates:
    gpu, architecture, device = machine
    chip = _chip(gpu, architecture)
    row = _row(gpu)
    multiprocessors = (row.multiprocessors if row else None) or parameter("gemm.multiprocessors", chip)
    wave = 0.0 if device == "cpu" else multiprocessors * TILE
    unfused = kernel == "unfused"
    keys = (f"{chip}.{kernel}", chip, kernel)
    return AttentionRates(
        forward_flops_per_s=products.flops_per_s
        * (1.0 if unfused else parameter("attention.forward_share", *keys)),
        backward_flops_per_s=products.flops_per_s
        * (1.0 if unfused else parameter("attention.backward_share", *keys)),
        bytes_per_s=products.bytes_per_s,
        idle_rows=wave * parameter("attention.idle_waves", *keys),
        prologue_keys=0.0 if device == "cpu" or unfused else parameter("attention.prologue_keys", *keys),
        backward_idle_rows=wave * parameter("attention.backward_idle_waves", *keys),
        softmax_dims=0.0 if unfused else parameter("attention.softmax_dims", *keys),
        score_bytes=parameter("attention.score_bytes") * (_BYTES.get(precision, 2.0) / 2.0)
        if unfused
        else 0.0,
        launch_s=0.0 if device == "cpu" else (4.0 if unfused else 1.0) * products.launch_s,
        pads_heads=kernel == "flash2" and device != "cpu",
    )


_COMPILED_HEADS = (32, 64, 96, 128, 192, 256)
"""Head widths of FlashAttention-2's kernels (Dao-AILab/flash-attention,
csrc/flash_attn/src/generate_kernels.py).
"""


def _compiled(head_dim: float) -> float:
    return next((float(width) for width in _COMPILED_HEADS if head_dim <= width), head_dim)


def attention_time_s(
    rates: AttentionRates,
    *,
    sequences: float,
    heads: float,
    kv_heads: float,
    queries: float,
    keys: float,
    query_key_dim: float,
    value_dim: float,
    causal: bool,
    window: int = 0,
) -> tuple[float, float]:
    """Return the seconds of the forward and backward pass of one layer's attention over `sequences`.

    Fused kernels skip the scores that a causal mask or a window hides; unfused kernels compute and store all
    scores.
    """
    skips = not rates.score_bytes
    visible_keys = keys
    if skips:
        visible_keys = keys / 2.0 if causal else keys
        # A query with a causal window of w attends to w keys, and to fewer at the start: w - w^2 / (2 keys)
        # on average.
        if 0 < window < keys:
            visible_keys = window - window * window / (2.0 * keys) if causal else float(window)
    # FLOPs per score, separately for products and exponential. The forward pass has two products. The
    # backward pass has four, and fused kernels also compute the scores again.
    dims = _compiled(query_key_dim) + _compiled(value_dim) if rates.pads_heads else query_key_dim + value_dim
    width, exponential = 2.0 * dims, 4.0 * rates.softmax_dims
    rows = sequences * heads * queries
    # The longest row of tiles ends last: it has all keys, twice the mean under a causal mask.
    longest = min(keys, 2.0 * visible_keys) if causal else visible_keys
    visible_keys += rates.prologue_keys
    forward_flops = (width + exponential) * (rows * visible_keys + rates.idle_rows * longest)
    backward_flops = ((2.5 if skips else 2.0) * width + exponential) * (
        rows * visible_keys + rates.backward_idle_rows * longest
    )
    moved = sequences * (heads * queries + kv_heads * keys) * (query_key_dim + value_dim) * 2.0
    scores = rates.score_bytes * rows * keys / rates.bytes_per_s
    forward = max(forward_flops / rates.forward_flops_per_s, moved / rates.bytes_per_s) + scores
    backward = (
        max(backward_flops / rates.backward_flops_per_s, 2.0 * moved / rates.bytes_per_s) + 2.0 * scores
    )
    # The backward pass computes its row sums with a separate kernel.
    return forward + rates.launch_s, backward + 2.0 * rates.launch_s
