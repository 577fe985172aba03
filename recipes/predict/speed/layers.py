"""Computation of a model's blocks and head on one rank for one micro-batch.

The time consists of matrix products, attention, elementwise work and kernel launches.
"""

import math
from typing import NamedTuple

from probes.base.record import Unknown, first_unknown
from recipes.job.models.blocks import Block, blocks_of, head_product
from recipes.job.workload import NARROW_PRECISIONS
from recipes.machine.cluster_records import Cluster
from recipes.predict.parameters import parameter
from recipes.predict.shares import is_adapted
from recipes.predict.speed.block_parts import attention_s, dense_s, experts_s
from recipes.predict.speed.communication import dispatched_width
from recipes.predict.speed.rates import (
    AttentionKernel,
    AttentionRates,
    ProductRates,
    alignment_share,
    attention_rates,
    prefers_cudnn,
    product_rates,
    training_time_s,
)
from recipes.predict.stacks import BEFORE_FUSED
from recipes.predict.training_job import ByKey, TransformerJob


class Rates(NamedTuple):
    """Rates of one rank."""

    product: ProductRates
    """Matrix products in the workload's precision."""
    wide: ProductRates
    """Matrix products that stay in 16 bits if the workload's precision has fewer bits: router and head."""
    experts: ProductRates
    """Grouped matrix products of experts; no kernel before them casts their inputs, so a cast has its full
    time.
    """
    attention: AttentionRates
    memory: float
    """Bytes per second that elementwise kernels read and write."""


class BlockTime(NamedTuple):
    """Seconds of one block and one micro-batch.

    The fields from `products` to `launches` are for both passes together and sum to them.
    """

    forward: float
    backward: float
    weights: float
    """Part of the backward pass in the gradients of weights.

    The gradients of adapters are too small to be included.
    """
    products: float
    attention: float
    elementwise: float
    launches: float
    """Time that the host adds if it launches kernels more slowly than the device runs them."""
    again: float
    """Time of the forward pass that full recomputation repeats."""


class Computation(NamedTuple):
    """Computation of one micro-batch on one rank, before the layers are dealt to pipeline stages."""

    rates: Rates
    blocks: tuple[BlockTime, ...]
    """Times of one block of each kind, in the order of `blocks_of`."""
    root_s: float
    """Time of head and loss for both passes."""


def computation_of(job: TransformerJob) -> Computation | Unknown:
    """Return the computation of one micro-batch; Unknown if the cluster has no rate for the workload.

    Layouts that differ only in replicas, stages or accumulation have the same computation.
    """
    return _computation(job, computed_by(job))


def computed_by(job: TransformerJob) -> tuple[object, ...]:
    """Return the key of a job's computation: jobs with equal keys have the same computation.

    A rank that has half of twice as many sequences computes the same number of tokens.
    """
    candidate = job.candidate
    degrees = candidate.degrees
    return (
        *(id(job.basis), id(job.cluster), id(job.stack)),
        *(degrees.tp, degrees.ep, job.tokens, job.sequence),
        *(candidate.compiled, candidate.sequence_parallel, candidate.flash_attention),
        candidate.sharding_stage == "zero3" and degrees.fsdp > 1,
    )


@ByKey
def _computation(job: TransformerJob) -> Computation | Unknown:
    of_rates = (id(job.basis), id(job.cluster), id(job.stack), job.attended)
    rates = _rates(job, (*of_rates, job.candidate.compiled, job.candidate.flash_attention))
    if isinstance(rates, Unknown):
        return rates
    blocks = tuple(block_times(job, rates, block) for block in blocks_of(job.workload.model))
    return Computation(rates, blocks, sum(root_s(job, rates)))


def rates_of(job: TransformerJob) -> Rates | Unknown:
    """Return the rates of the cluster's devices for this workload; Unknown if the cluster has none."""
    workload, cluster, stack = job.workload, job.cluster, job.stack
    precision = workload.precision
    wide = "bf16" if precision in NARROW_PRECISIONS else precision
    has_bf16 = "bf16" in cluster.peak_flops_per_s or "bf16" in cluster.flops_per_s
    if precision == "bf16" and cluster.device == "cuda" and not has_bf16:
        precision = wide = "fp16"
    fused = "flash2" if stack.attention == "unfused" else stack.attention
    if fused == "flash3" and cluster.architecture != "hopper":
        fused = "flash2"
    if fused == "flash2" and prefers_cudnn(cluster):
        fused = "cudnn"
    stated = job.candidate.flash_attention
    unfused = stack.writes_scores(workload.model) if stated is None else not stated
    kernel: AttentionKernel = "unfused" if unfused or cluster.architecture in BEFORE_FUSED else fused
    product = product_rates(cluster, precision, share=_share(cluster, precision))
    broad = product_rates(cluster, wide, share=_share(cluster, wide))
    share = _share(cluster, wide) * parameter("time.attention_share", cluster.device, kernel)
    if stack.narrow_attention and precision in NARROW_PRECISIONS:
        share *= parameter("time.narrow_attention")
    attention = attention_rates(cluster, wide, kernel, share=share, sequence=job.attended)
    bandwidth = cluster.memory_bandwidth_bytes_per_s
    if isinstance(product, Unknown) or isinstance(broad, Unknown) or isinstance(attention, Unknown):
        return first_unknown(product, broad, attention)  # type: ignore[return-value]
    assert bandwidth is not None  # noqa: S101 - product_rates requires it
    memory = bandwidth.value * (1.0 if bandwidth.basis == "measured" else parameter("time.memory_fraction"))
    cast = product._replace(cast_s=product.cast_s * parameter("time.cast_share", job.kernels))
    return Rates(cast, cast if wide == precision else broad, product, attention, memory)


_rates = ByKey(rates_of)


def _share(cluster: Cluster, precision: str) -> float:
    """Return the part of a benchmark's rate that a training step sustains.

    In a step, clocks are lower under constant load, other GPUs are busy too, and there are gaps between
    kernels.
    """
    if cluster.device == "cpu":
        return parameter("time.product_share", f"cpu.{precision}", "cpu")
    return parameter(
        "time.product_share", f"{cluster.architecture}.{precision}", cluster.architecture, precision
    )


def block_times(job: TransformerJob, rates: Rates, block: Block) -> BlockTime:
    """Return the times of one block on one rank.

    A matrix product's time is its FLOPs divided by a rate, which is lower for few rows or narrow weights. The
    time of elementwise work is its bytes divided by the memory bandwidth. On a GPU a block's time is at least
    the time that the host needs to launch its kernels.
    """
    degrees = job.candidate.degrees
    tokens = job.tokens_of(block)
    sequence = job.attended * tokens / job.tokens
    forward_products = backward_products = weights_products = unused = 0.0
    # If gradients are kept in fp32, the backward pass adds to them: it reads 4 bytes and writes 4.
    gradient = 8.0 if job.stack.memory.keeps_gradients else 2.0
    dense = dense_s(block, tokens, degrees.tp, (rates.product, rates.wide), gradient)
    experts = experts_s(block, tokens, (degrees.tp, degrees.ep), rates.experts, (gradient, job.stack.experts))
    for product, dense_times, expert_times in zip(block.products, dense, experts, strict=True):
        times = expert_times if product.experts > 1 else dense_times
        forward_products += times[0]
        # The weighted sum of routed experts needs their outputs, and adapters run after the frozen product.
        is_used = product.experts > 1 or not job.trains_weights
        unused = 0.0 if is_used else times[0]
        backward_products += times[1]
        if job.trains_weights:
            backward_products += times[2]
            weights_products += times[2]
        elif is_adapted(product, job.adapted):
            backward_products += times[0] * parameter("time.adapter_cost")
    attention, attention_back = attention_s(
        block, tokens, (sequence, job.sequence), degrees.tp, rates.attention
    )
    if block.state_space is not None:
        space = block.state_space
        flops = 2.0 * tokens * space.inner * space.states * parameter("time.state_space_passes") / degrees.tp
        attention += flops / rates.attention.forward_flops_per_s
        attention_back += 2.5 * flops / rates.attention.backward_flops_per_s
    elementwise = _elementwise_bytes(job, block) / rates.memory
    forward = forward_products + attention + elementwise
    backward = backward_products + attention_back + 2.0 * elementwise
    launches, launches_back = _launches_s(job, block, forward, backward)
    again, launches_again = forward, launches
    if job.stack.stops_recomputing:
        again = forward - unused
        launches_again, _ = _launches_s(job, block, again, backward)
    return BlockTime(
        forward=forward + launches,
        backward=backward + launches_back,
        weights=weights_products,
        products=forward_products + backward_products,
        attention=attention + attention_back,
        elementwise=3.0 * elementwise,
        launches=launches + launches_back,
        again=again + launches_again,
    )


def local_experts(job: TransformerJob, block: Block) -> float:
    """Return the number of the block's routed experts on one rank; 0 if the block has none."""
    return max(
        (product.experts / job.candidate.degrees.ep for product in block.products if product.experts > 1),
        default=0.0,
    )


def _launches_s(
    job: TransformerJob, block: Block, forward_s: float, backward_s: float
) -> tuple[float, float]:
    """Return the time that launches of a block's kernels add to their run time, forward and backward.

    Experts in a loop also wait for the numbers of their tokens.
    """
    cluster = job.cluster
    kernels = parameter("time.block_kernels", job.kernels) * (1.0 + 0.5 * (len(block.attention) > 1))
    again = parameter("time.backward_launches")
    if cluster.device == "cpu":
        # On a CPU the thread that launches a kernel also computes it.
        launches = kernels * parameter("time.launch_s.cpu")
        return launches, launches * again
    local = local_experts(job, block)
    if local:
        width = "narrow" if job.workload.precision in NARROW_PRECISIONS else "wide"
        if job.stack.experts == "looped":
            width = "looped"
        kernels += (
            parameter("time.expert_kernels", job.kernels)
            + parameter("time.kernels_per_expert", width) * local
        )
    if not job.trains_weights:
        layers = [product for product in block.products if product.experts == 1 and product.part != "router"]
        adapted = sum(is_adapted(product, job.adapted) for product in layers) / max(1, len(layers))
        kernels *= 1.0 + (parameter("time.adapter_kernels") - 1.0) * adapted
    launches = kernels * parameter("time.launch_s", "graphs" if job.stack.graphs else cluster.architecture)
    hooks = _hooks_s(job, block)
    waits = local * parameter("time.expert_wait_s") if job.stack.experts == "looped" else 0.0
    return (
        _at_least(forward_s, launches + hooks) - forward_s + waits,
        # the backward pass gathers a module's parameters again before its gradients, and reduces the
        # gradients after
        _at_least(backward_s, launches * again + 2.0 * hooks) - backward_s + waits,
    )


def _hooks_s(job: TransformerJob, block: Block) -> float:
    """Return the host's time for the hooks that gather and free a block's parameters in one pass.

    Either the whole block has one hook, or each of its modules has one.
    """
    if job.candidate.sharding_stage != "zero3" or job.candidate.degrees.fsdp == 1 or job.stack.graphs:
        return 0.0
    modules = (
        sum(product.experts for product in block.products) + block.norms
        if job.stack.gathers_modules == "always"
        else 1
    )
    return modules * parameter("time.module_hook_s")


def root_s(job: TransformerJob, rates: Rates) -> tuple[float, float]:
    """Return the forward and backward times of head and loss for one micro-batch, on a rank with the head."""
    stack, model = job.stack, job.workload.model
    degrees, tokens = job.candidate.degrees, job.tokens
    head = head_product(model)
    share = model.head_fraction * job.target_share
    product, inputs_s, weights_s = training_time_s(
        rates.wide, tokens * share, float(head.inputs), head.outputs / degrees.tp
    )
    if (
        not stack.pads_vocabulary
        and not job.candidate.compiled
        and stack.model_kernels in ("eager", "upcasting")
    ):
        # handwritten kernels and compilers pad the vocabulary (Megatron-LM,
        # torch/_inductor/fx_passes/pad_mm.py)
        aligned = alignment_share(rates.wide, float(head.inputs), head.outputs / degrees.tp)
        product, inputs_s, weights_s = product / aligned, inputs_s / aligned, weights_s / aligned
    loss = (
        tokens * share * head.outputs / degrees.tp * parameter("time.loss_bytes", job.kernels) / rates.memory
    )
    if job.cluster.device == "cpu":
        loss += _fresh_memory_s(4.0 * tokens * share * head.outputs)
    return product + loss / 2, inputs_s + (weights_s if job.trains_weights else 0.0) + loss / 2


def _fresh_memory_s(logits_bytes: float) -> float:
    """Return the time in which the operating system clears pages for the loss's tensors.

    The C library allocates tensors above a certain size anew each time.
    """
    if logits_bytes < parameter("time.fresh_bytes"):
        return 0.0
    return logits_bytes * parameter("time.loss_copies") * parameter("time.page_s_per_byte")


def _at_least(work: float, floor: float) -> float:
    """Return the larger of the two times, with a smooth transition if they are similar.

    Kernels vary in length, so if the times are similar, each limit applies to some of the kernels.
    """
    return work * math.sqrt(math.sqrt(1.0 + (floor / work) ** 4)) if work > 0.0 else floor


def _elementwise_bytes(job: TransformerJob, block: Block) -> float:
    """Return the bytes that elementwise work moves in a forward pass.

    Elementwise work consists of norms, residuals, rotary positions, activation and routing. A norm reads one
    tensor and writes one (2 h), a residual reads two and writes one (3 h), attention reads and writes its
    operands, a gate reads two and writes one. Models with an encoder also have dropout. Adapters apply
    dropout to their input (2.5 times its elements) and are added to the output (3 times its elements).
    Quantised weights are converted back before they are used. Tensor-parallel ranks divide the work of
    attention and MLP. With sequence parallelism they also divide norms, residuals and routing; without it,
    each rank repeats these.
    """
    tokens, tensor = job.tokens_of(block), job.candidate.degrees.tp
    element = 4.0 if job.cluster.device == "cpu" else job.wide_bytes
    split = tensor if job.divides_norms else 1
    passes = 5.0
    if job.workload.model.kind != "decoder":
        passes += parameter("time.dropout_passes", job.kernels)
    elements = block.hidden * passes * block.norms / split
    for mixer in block.attention:
        elements += (
            (mixer.heads * (mixer.query_key_dim + mixer.value_dim) + mixer.kv_heads * mixer.query_key_dim * 2)
            * 2.0
            / tensor
        )
    elements += block.ffn_width * (3.0 if block.gated else 2.0) / tensor
    elements += dispatched_width(block) * parameter("time.dispatch_passes", job.stack.experts) / split
    if block.state_space is not None:
        # convolution: 2.5; scan, including its chunks' states in fp32: 6; gated norm: 3.5
        # (state-spaces/mamba, ssd_combined.py)
        elements += block.state_space.inner * 12.0 / tensor
    if not job.trains_weights:
        beside = sum(
            2.5 * product.inputs + 3.0 * product.outputs
            for product in block.products
            if is_adapted(product, job.adapted)
        )
        elements += parameter("time.adapter_traffic") * beside / tensor
    traffic = elements * element * parameter("time.traffic", job.kernels)
    if job.is_quantised:
        weights = sum(product.parameters for product in block.products)
        return tokens * traffic + weights / tensor * parameter("time.dequantise_bytes")
    return tokens * traffic
