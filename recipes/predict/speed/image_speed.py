"""Time of training image models.

Convolutions run at a part of the peak rate. Reads and writes run at a part of the memory bandwidth, and a
multiprocessor handles a limited number of elements per clock. Each kernel also costs a short constant time.
The terms are added, because different kernels of a step have different limits. The host launches kernels
ahead of the GPU, so it limits a step only if launching all kernels takes longer than running them.
"""

import math

from probes.base.record import Reason, Unknown
from recipes.job.workload import FULL_PRECISIONS, STATE_BYTES
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.parameters import parameter
from recipes.predict.speed.collectives import collective_time_s, unknown_link, world_group
from recipes.predict.speed.rates import power_share
from recipes.predict.stacks import Stack, on_cpu
from recipes.predict.training_job import HALF, ImageJob, convolved_in

_HELD = 2.5
"""Largest ratio of tensor core rate to shader rate on GPUs whose vendor limits the tensor cores; without a
limit, the ratio is 4 to 30.
"""
_NARROW = {"pascal": 1.5, "volta": 0.0, "turing": 0.0, "ampere": 8.0}
"""Ratio of the fp16 rate to the fp32 rate above which a GPU of this architecture has 64 fp32 lanes per
multiprocessor. The ratio is 2 in the P100 and 1 or less in other Pascals, 16 in the A100 and 4 in the A10.
"""
_CLOCK = 1.5e9
"""Approximate clock rate of a multiprocessor, Hz."""
_VOLUME = 3
"""Number of dimensions of a volume."""
_BACKWARD = 2 / 3
"""Part of a step that is the backward pass."""


def vision_time(job: ImageJob) -> TimeBreakdown | Unknown:
    """Return the seconds of one optimizer step; Unknown if a rate or link that it needs is Unknown.

    `low` and `high` are the total until an interval is known.
    """
    if job.cluster.device == "cpu":
        job = job._replace(stack=on_cpu(job.stack))
    candidate, cluster, stack, model = job.candidate, job.cluster, job.stack, job.model
    kernels, images = _kernels(job), candidate.micro_batch
    image = _image_s(job, kernels)
    if isinstance(image, Unknown):
        return image
    fully = candidate.sharding_stage == "zero3"
    unknown = unknown_link(
        world_group(cluster), cluster, *(("all_gather", "reduce_scatter") if fully else ("all_reduce",))
    )
    if unknown is not None:
        return unknown
    gap, launch = parameter("vision.kernel_s", kernels), parameter("vision.launch_s", kernels)
    gap += _tail_s(convolved_in(job.workload.precision, cluster, stack), cluster)
    # Work on single images waits for results from the GPU, so the host cannot launch its kernels ahead.
    micro = (
        max(images * image + gap * model.operators, launch * model.operators)
        + launch * model.image_operators * images
    )
    compute = candidate.grad_accum * micro
    degrees = candidate.degrees
    replicas = degrees.dp if candidate.sharding_stage in ("zero1", "zero2") else 1
    updated = 1 if candidate.sharding_stage == "none" else replicas * degrees.fsdp
    optimizer = _optimizer_s(job) / updated + gap
    exposed = _gathering_s(job, beside=compute) if fully else _exposed_s(job, backward=_BACKWARD * micro)
    waiting = compute * _straggling(cluster, "graphs" if stack.graphs else kernels)
    total = compute + optimizer + exposed + waiting
    return TimeBreakdown(
        total=total,
        compute=compute,
        exposed_communication=exposed,
        optimizer=optimizer,
        overhead=waiting,
        low=total,
        high=total,
    )


def _image_s(job: ImageJob, kernels: str) -> float | Unknown:
    """Return the seconds of both passes for one image of a large batch."""
    model, cluster, stack, multiplied = job.model, job.cluster, job.stack, job.computed
    precision = convolved_in(job.workload.precision, cluster, stack)
    peak = cluster.peak_flops_per_s.get(precision) or cluster.flops_per_s.get(precision)
    bandwidth = cluster.memory_bandwidth_bytes_per_s
    if peak is None or bandwidth is None:
        return Unknown(Reason.NOT_RECORDED, f"{precision} rate or memory bandwidth of {cluster.device_name}")
    kind = "half" if precision in HALF else precision
    volume = parameter("vision.volume_share") if model.dimensions == _VOLUME else 1.0
    flops = model.dense_flops
    if precision == "fp32" and cluster.device == "cuda":
        flops -= model.spatial_flops * (1.0 - 1.0 / parameter("vision.winograd_gain", cluster.architecture))
    seconds = 0.0
    if multiplied != precision:
        slow = cluster.peak_flops_per_s.get(multiplied)
        if slow is not None:
            flops -= model.product_flops
            seconds += model.product_flops / (slow.value * _dense_efficiency(multiplied, multiplied, cluster))
    seconds += flops / (volume * peak.value * _dense_efficiency(kind, precision, cluster))
    if model.grouped_flops:
        seconds += model.grouped_flops / (peak.value * parameter("vision.grouped_efficiency", kind))
    shaders = cluster.peak_flops_per_s.get("fp32")
    if model.depthwise_flops and shaders is not None and cluster.device == "cuda":
        seconds += model.depthwise_flops / (shaders.value * parameter("vision.depthwise_efficiency", kind))
    elements = (
        model.matrix_elements
        + model.convolution_elements * _convolution_passes(kind, kernels, stack)
        + model.pointwise_elements * parameter("vision.pointwise_share", kernels)
    )
    if model.depthwise_elements:
        elements += model.depthwise_elements * parameter("vision.depthwise_passes", kind)
    seconds += (
        elements
        * (2 if kind == "half" else 4)
        / (bandwidth.value * parameter("vision.memory_efficiency", cluster.device))
    )
    clocks = _clocks_per_s(cluster)
    return seconds + (
        elements / (parameter("vision.elements_per_clock", kernels) * clocks) if clocks else 0.0
    )


def _tail_s(precision: str, cluster: Cluster) -> float:
    """Return the time that a kernel loses at the end, when some multiprocessors have no tile left."""
    peak, clocks = cluster.peak_flops_per_s.get(precision), _clocks_per_s(cluster)
    if peak is None or clocks is None:
        return 0.0
    return parameter("vision.tail_flops") * clocks / (_CLOCK * peak.value)


def _dense_efficiency(kind: str, precision: str, cluster: Cluster) -> float:
    """Return the part of the peak that dense convolutions reach.

    GeForce cards limit the tensor cores to half of their rate, which convolutions then reach more easily.
    """
    shaders, tensor = cluster.peak_flops_per_s.get("fp32"), cluster.peak_flops_per_s.get(precision)
    held = (
        kind != "fp32"
        and shaders is not None
        and tensor is not None
        and tensor.value <= _HELD * shaders.value
    )
    if cluster.device == "cpu":
        return parameter("vision.dense_efficiency", "cpu")
    share = power_share(cluster.gpu, cluster.architecture) if cluster.gpu else None
    clock = 1.0 if share is None else math.pow(share, parameter("vision.power_exponent"))
    return clock * parameter(
        "vision.dense_efficiency", *(("half-rate",) if held else (f"{cluster.architecture}-{kind}", kind))
    )


def _clocks_per_s(cluster: Cluster) -> float | None:
    """Return the clocks of all multiprocessors together per second; None on a CPU or without an fp32 peak.

    The clocks are the fp32 peak divided by the lanes of a multiprocessor, with two operations per lane and
    clock. Lanes: 192 in Kepler, 64 in Volta, Turing and the data-centre parts of Pascal and Ampere, 128 in
    the others (NVIDIA's architecture white papers).
    """
    peak = cluster.peak_flops_per_s.get("fp32")
    if peak is None or cluster.device != "cuda":
        return None
    tensor = cluster.peak_flops_per_s.get("fp16", peak).value
    lanes = 64 if tensor > _NARROW.get(cluster.architecture, math.inf) * peak.value else 128
    return peak.value / (2 * (192 if cluster.architecture == "kepler" else lanes))


def _kernels(job: ImageJob) -> str:
    work, stack = job.workload, job.stack
    convolves = work.model.product_flops < work.model.dense_flops / 2
    if stack.fuses_half_images and convolves and work.precision not in FULL_PRECISIONS:
        return "fused"
    on_gpu = "compiled" if job.candidate.compiled else "eager"
    return "cpu" if stack.kernels == "cpu" else on_gpu


def _convolution_passes(kind: str, kernels: str, stack: Stack) -> float:
    """Return the number of passes over a convolution's data, including transpositions.

    Tensor cores read channels last; if channels are first, data are transposed before and after.
    """
    layouts = ("first", "last") if stack.layout == "either" else (stack.layout,)
    return sum(
        parameter("vision.convolution_passes", kernels, f"{kind}-{layout}", kind) for layout in layouts
    ) / len(layouts)


def _optimizer_s(job: ImageJob) -> float:
    """Return the time of the optimizer, which reads gradients, weights and states and writes weights and
    states, in fp32.
    """
    cluster = job.cluster
    if cluster.memory_bandwidth_bytes_per_s is None:
        return 0.0
    moved = 4.0 * 3 + 2 * STATE_BYTES[job.workload.optimizer]
    rate = cluster.memory_bandwidth_bytes_per_s.value * parameter("vision.memory_efficiency", cluster.device)
    return job.model.parameters * moved / rate


def _exposed_s(job: ImageJob, *, backward: float) -> float:
    """Return the part of the gradients' reduction time that the backward pass does not hide."""
    cluster = job.cluster
    size = job.model.parameters * float(job.element_bytes)
    whole = collective_time_s("all_reduce", size, world_group(cluster), cluster)
    if not job.stack.overlaps_gradients:
        return whole
    measured = cluster.hidden_communication
    share = measured.value if measured is not None else parameter("vision.hidden_share", cluster.device)
    return whole - min(share * whole, backward)


def _gathering_s(job: ImageJob, *, beside: float) -> float:
    """Return the visible communication time of full sharding.

    For each micro-batch, weights are gathered for both passes, and gradients are reduced once.
    """
    cluster = job.cluster
    size = job.model.parameters * float(job.element_bytes)
    gather = collective_time_s("all_gather", size, world_group(cluster), cluster)
    reduce = collective_time_s("reduce_scatter", size, world_group(cluster), cluster)
    whole = job.candidate.grad_accum * (2 * gather + reduce)
    hidden = parameter("vision.hidden_share", cluster.device) * whole if job.stack.overlaps_gradients else 0.0
    return whole - min(hidden, beside)


def _straggling(cluster: Cluster, how: str) -> float:
    """Return the part of a step by which the slowest of the ranks is late.

    The largest of n independent delays with a normal distribution is about sqrt(2 ln n) standard deviations
    above the mean, so a thousand nodes wait little longer than a hundred.
    """
    within = parameter("vision.straggling", how) * math.log2(cluster.ranks_per_node)
    nodes = math.sqrt(2.0 * math.log(cluster.nodes))
    return within + parameter("vision.straggling_nodes", how) * nodes
