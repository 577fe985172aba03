"""Communication between the ranks of a job in one step, and the part that computation does not hide."""

from __future__ import annotations

import math

from probes.base.record import Unknown
from recipes.job.candidate import Candidate
from recipes.job.models.blocks import Block
from recipes.machine.cluster_records import Cluster
from recipes.predict.parameters import parameter
from recipes.predict.shares import Held
from recipes.predict.speed.collectives import Collective, Group, collective_time_s
from recipes.predict.training_job import TransformerJob


def tensor_group(candidate: Candidate, cluster: Cluster) -> Group:
    """Return the tensor-parallel ranks, which are neighbours."""
    return _group(candidate.degrees.tp, 1, cluster)


def context_group(candidate: Candidate, cluster: Cluster) -> Group:
    """Return the context-parallel ranks, which are beside the tensor-parallel ones."""
    return _group(candidate.degrees.cp, candidate.degrees.tp, cluster)


def expert_group(candidate: Candidate, cluster: Cluster) -> Group:
    """Return the expert-parallel ranks: folded from data- and tensor-parallel ones, neighbours first."""
    return _group(candidate.degrees.ep, 1, cluster)


def data_group(candidate: Candidate, cluster: Cluster) -> Group:
    """Return the ranks that reduce the same gradients: data and context parallel, beside tensor parallel."""
    degrees = candidate.degrees
    return _group(degrees.dp * degrees.fsdp * degrees.cp, degrees.tp, cluster)


def expert_data_group(candidate: Candidate, cluster: Cluster, expert_tensor: int) -> Group:
    """Return the ranks with the same experts, or with the same parts if `expert_tensor` ranks share each."""
    degrees = candidate.degrees
    ranks = max(1, degrees.dp * degrees.fsdp * degrees.cp * degrees.tp // (degrees.ep * expert_tensor))
    return _group(ranks, degrees.ep * expert_tensor, cluster)


def shard_group(candidate: Candidate, cluster: Cluster) -> Group:
    """Return the ranks that share one copy of fully sharded parameters."""
    degrees = candidate.degrees
    return _group(degrees.fsdp * degrees.cp, degrees.tp, cluster)


def expert_shard_group(candidate: Candidate, cluster: Cluster, expert_tensor: int) -> Group:
    """Return the ranks of `expert_data_group` that share the states of the same experts.

    There is one for each rank of expert parallelism between them.
    """
    degrees = candidate.degrees
    apart = degrees.ep * expert_tensor
    return _group(max(1, degrees.fsdp * degrees.cp * degrees.tp // apart), apart, cluster)


def replica_group(candidate: Candidate, cluster: Cluster) -> Group:
    """Return the ranks with the same shard, one per copy of the model."""
    degrees = candidate.degrees
    return _group(degrees.dp, degrees.fsdp * degrees.cp * degrees.tp, cluster)


def _group(ranks: int, stride: int, cluster: Cluster) -> Group:
    """Return `ranks` ranks at a distance of `stride` from each other."""
    per_node = max(1, min(ranks, cluster.ranks_per_node // max(stride, 1)))
    return Group(ranks=ranks, nodes=max(1, min(cluster.nodes, -(-ranks // per_node))))


def block_s(job: TransformerJob, block: Block) -> tuple[float, float] | Unknown:
    """Return the visible communication inside one block, seconds forward and backward.

    It is that of tensor, context and expert parallelism.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    degrees, tokens = candidate.degrees, job.tokens_of(block)
    forward = backward = 0.0
    if degrees.tp > 1:
        times = _tensor_s(job, tokens * block.hidden * 2.0)
        if isinstance(times, Unknown):
            return times
        mixers = (
            len(block.attention)
            + (block.state_space is not None)
            + (block.ffn_width > 0 and not block.parallel)
        )
        visible = parameter("time.tensor_exposed", "overlapped" if stack.overlaps_tensor else "plain")
        forward += mixers * times * visible
        backward += mixers * times * visible
    if degrees.cp > 1 and block.attention:
        attention = block.attention[0]
        keys = (
            tokens * attention.kv_heads * (attention.query_key_dim + attention.value_dim) * 2.0 / degrees.tp
        )
        time = collective_time_s("all_gather", keys * degrees.cp, context_group(candidate, cluster), cluster)
        if isinstance(time, Unknown):
            return time
        forward += time * parameter("time.context_exposed")
        backward += 2.0 * time * parameter("time.context_exposed")
    dispatched = dispatched_width(block)
    if degrees.ep > 1 and dispatched:
        group = expert_group(candidate, cluster)
        size = tokens * dispatched * 2.0 / degrees.tp * _sent_copies(block, group)
        time = collective_time_s("all_to_all", size, group, cluster)
        if isinstance(time, Unknown):
            return time
        visible = parameter("time.expert_exposed", "overlapped" if stack.overlaps_experts else "plain")
        forward += 2.0 * time * visible
        backward += 2.0 * time * visible
    return forward, backward


def dispatched_width(block: Block) -> float:
    """Return the elements that one token sends to its experts.

    Each expert gets a copy of its hidden state, or of the latent one.
    """
    return next(
        (product.rows * product.inputs for product in block.products if product.part == "experts"), 0.0
    )


def _sent_copies(block: Block, group: Group) -> float:
    """Return the part of a token's copies that travels between nodes.

    Experts on one node share one copy (DeepSeek-V3, section 3.2.2). Of n nodes, a token with k experts meets
    n (1 - (1 - 1/n)^k) on average.
    """
    copies = next((product.rows for product in block.products if product.part == "experts"), 1.0)
    if group.nodes <= 1:
        return 1.0
    return min(1.0, group.nodes * (1.0 - math.pow(1.0 - 1.0 / group.nodes, copies)) / copies)


def _tensor_s(job: TransformerJob, size: float) -> float | Unknown:
    cluster = job.cluster
    group = tensor_group(job.candidate, cluster)
    if not job.divides_norms:
        return collective_time_s("all_reduce", size, group, cluster)
    gather = collective_time_s("all_gather", size, group, cluster)
    scatter = collective_time_s("reduce_scatter", size, group, cluster)
    if isinstance(gather, Unknown):
        return gather
    return scatter if isinstance(scatter, Unknown) else gather + scatter


def beside(communication_s: float, computation_s: float, exposed: float) -> float:
    """Return the visible part of communication beside computation.

    That is `exposed` of it, always, and what does not fit.
    """
    return communication_s * exposed + max(0.0, communication_s * (1.0 - exposed) - computation_s)


def exposed_share(cluster: Cluster, name: str) -> float:
    """Return the part of data-parallel communication that is always visible, measured here or fitted."""
    measured = cluster.hidden_communication
    return 1.0 - measured.value if measured is not None else parameter(name, cluster.device)


def gradients_s(job: TransformerJob, held: Held, *, forward_s: float, backward_s: float) -> float | Unknown:
    """Return the visible time of reducing gradients once per step, beside the last backward pass.

    If optimizer states are shared, it includes gathering parameters. `forward_s` and `backward_s` are one
    micro-batch.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    total = 0.0
    experts = expert_data_group(candidate, cluster, held.expert_tensor)
    for count, group in ((held.dense, data_group(candidate, cluster)), (held.expert, experts)):
        if count <= 0 or group.ranks <= 1:
            continue
        size = count * held.trained_share * stack.travelling_bytes
        exposed = exposed_share(cluster, "time.gradient_exposed") if stack.overlaps_gradients else 1.0
        if candidate.sharding_stage == "none":
            time = _steps("all_reduce", size, group, job)
            if isinstance(time, Unknown):
                return time
            total += beside(time, backward_s, exposed)
            continue
        scatter = _steps("reduce_scatter", size, group, job)
        gather = _steps("all_gather", count * held.trained_share * 2.0, group, job)
        if isinstance(scatter, Unknown):
            return scatter
        if isinstance(gather, Unknown):
            return gather
        visible = beside(scatter, backward_s, exposed) + beside(gather, forward_s, exposed)
        nested = (
            _nested_s(size, count * held.trained_share * 2.0, group, job)
            if stack.nests(job.workload)
            else None
        )
        if nested is not None:
            visible = min(
                visible, beside(nested[0], backward_s, exposed) + beside(nested[1], forward_s, exposed)
            )
        total += visible
    return total


def _nested_s(
    reduced: float, gathered: float, group: Group, job: TransformerJob
) -> tuple[float, float] | None:
    """Return the time of reducing and gathering if nodes have copies of the states that their ranks share.

    Gradients are scattered inside the node, reduced across nodes and gathered inside the node. Only programs
    that request it do so: a ring over thousands of ranks waits for each rank, and NCCL nests all-reduces by
    its trees, but scatters and gathers in one ring.
    """
    if group.nodes <= 1 or group.ranks_per_node <= 1:
        return None
    inside, across = Group(ranks=group.ranks_per_node, nodes=1), Group(ranks=group.nodes, nodes=group.nodes)
    scatter = _steps("reduce_scatter", reduced, inside, job)
    between = _steps("all_reduce", reduced / group.ranks_per_node, across, job)
    gather = _steps("all_gather", gathered, inside, job)
    if isinstance(scatter, Unknown) or isinstance(between, Unknown) or isinstance(gather, Unknown):
        return None
    return scatter + between, gather


def _steps(collective: Collective, size: float, group: Group, job: TransformerJob) -> float | Unknown:
    """Return the whole of `size` in buckets, each of which waits for all hops."""
    element = 2.0 if collective == "all_gather" else job.stack.travelling_bytes
    bucket = max(parameter("time.bucket_bytes"), element * job.stack.bucket_elements(group.ranks))
    parts = max(1.0, size / bucket)
    time = collective_time_s(collective, size / parts, group, job.cluster)
    return time if isinstance(time, Unknown) else parts * time


def shards_s(
    job: TransformerJob,
    held: Held,
    layers: float,
    *,
    forward_s: float,
    backward_s: float,
    reduces: bool = True,
) -> float | Unknown:
    """Return the visible gathering and reducing of fully sharded parameters, one micro-batch.

    Every layer is gathered forward and backward and its gradients are reduce-scattered, beside its
    neighbours' computation; the first gather and the last reduction, of parameters outside the layers, are
    not. `forward_s` and `backward_s` are of all `layers`. Without `reduces` a later micro-batch reduces the
    gradients.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    group = shard_group(candidate, cluster)
    if group.ranks <= 1:
        return 0.0
    gathered = job.wide_bytes if job.trains_weights else job.workload.base_bits / 8
    reduced = held.trained_share * stack.travelling_bytes if reduces else 0.0
    dense, expert = max(0.0, held.dense - 2.0 * held.root) / layers, held.expert / layers
    if candidate.degrees.ep == 1:
        dense, expert = dense + expert, 0.0
    among = expert_shard_group(candidate, cluster, held.expert_tensor)
    times = [
        collective_time_s("all_gather", dense * gathered, group, cluster),
        collective_time_s("reduce_scatter", dense * reduced, group, cluster),
        collective_time_s("all_gather", expert * gathered, among, cluster) if expert else 0.0,
        collective_time_s("reduce_scatter", expert * reduced, among, cluster) if expert else 0.0,
        collective_time_s("all_gather", held.root * gathered, group, cluster),
        collective_time_s("reduce_scatter", held.root * reduced, group, cluster),
    ]
    known = [time for time in times if not isinstance(time, Unknown)]
    if len(known) < len(times):
        return next(time for time in times if isinstance(time, Unknown))
    gather, scatter, root_gather, root_scatter = known[0] + known[2], known[1] + known[3], known[4], known[5]
    exposed = exposed_share(cluster, "time.shard_exposed")
    forward = beside(gather, forward_s / layers, exposed)
    backward = beside(gather + scatter, backward_s / layers, exposed)
    return layers * (forward + backward) + root_gather + root_scatter


def boundary_s(job: TransformerJob, computing_s: float) -> tuple[float, float] | Unknown:
    """Return the visible passing of activations and gradients between stages: per micro-batch, per step.

    Stages follow each other, each on neighbouring ranks, so a boundary uses the network only if it is between
    nodes; there all ranks of a stage, or all of the node, share it.

    A stage has as many micro-batches on their way as stages are left, with its own, so it waits for the
    messages of the boundaries behind it over those; the worst stage paces the pipeline. The part that does
    not fit beside the computation of a micro-batch, `computing_s`, is visible in any case. While the pipeline
    fills and drains nothing hides a message, nor ever if one GPU computes after the other (schedule
    "layers").
    """
    candidate, cluster = job.candidate, job.cluster
    degrees = candidate.degrees
    if degrees.pp == 1:
        return 0.0, 0.0
    size = 2.0 * job.tokens * job.workload.model.hidden / degrees.tp
    stage, node = degrees.dp * degrees.fsdp * degrees.cp * degrees.tp, cluster.ranks_per_node
    # Two ranks on two nodes get one rank's part of the network; ranks of the node that send nothing leave
    # theirs to the others.
    across = collective_time_s(
        "all_gather", 2.0 * size * min(1.0, stage / node), Group(ranks=2, nodes=2), cluster
    )
    inside = collective_time_s("all_gather", 2.0 * size, Group(ranks=2, nodes=1), cluster)
    messages = []
    for boundary in range(1, degrees.pp):
        time = across if cluster.nodes > 1 and (stage > node or boundary * stage % node == 0) else inside
        if isinstance(time, Unknown):
            return time
        messages.append(2.0 * time)
    if candidate.schedule == "layers":
        return 0.0, candidate.grad_accum * sum(messages)
    waits = max(sum(messages[first:]) / (degrees.pp - first) for first in range(degrees.pp - 1))
    slowest = degrees.vp * max(messages)
    return beside(slowest, computing_s, parameter("time.boundary_exposed") * waits / max(messages)), sum(
        messages
    )
