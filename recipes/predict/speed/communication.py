"""Communication between the ranks of a job in one step, and the part that computation does not hide."""

import functools
import math
from typing import NamedTuple

from recipes.job.models.blocks import Block
from recipes.machine.cluster_records import Cluster
from recipes.predict.parameters import parameter
from recipes.predict.shares import Held
from recipes.predict.speed.collectives import Collective, Group, collective_time_s
from recipes.predict.training_job import ByKey, TransformerJob


def group_of(ranks: int, stride: int, cluster: Cluster) -> Group:
    """Return the group of `ranks` ranks at a distance of `stride` from each other."""
    return _group(ranks, stride, cluster.ranks_per_node, cluster.nodes)


@functools.lru_cache(maxsize=4096)
def _group(ranks: int, stride: int, ranks_per_node: int, nodes: int) -> Group:
    per_node = max(1, min(ranks, ranks_per_node // max(stride, 1)))
    return Group(ranks=ranks, nodes=max(1, min(nodes, -(-ranks // per_node))))


def block_s(job: TransformerJob, block: Block) -> tuple[float, float]:
    """Return the seconds of visible communication inside one block: of the forward and of the backward pass.

    This is the communication of tensor, context and expert parallelism. Tensor-parallel ranks are neighbours,
    then come context-parallel ranks. A group of expert parallelism consists of consecutive ranks, so the
    ranks of a tensor-parallel group are next to each other in it.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    degrees, tokens = candidate.degrees, job.tokens_of(block)
    forward = backward = 0.0
    if degrees.tp > 1:
        mixers = (
            len(block.attention)
            + (block.state_space is not None)
            + (block.ffn_width > 0 and not block.parallel)
        )
        visible = parameter("time.tensor_exposed", "overlapped" if stack.overlaps_tensor else "plain")
        forward = backward = mixers * _tensor_s(job, tokens * block.hidden * 2.0) * visible
    if degrees.cp > 1 and block.attention:
        attention = block.attention[0]
        keys = (
            tokens * attention.kv_heads * (attention.query_key_dim + attention.value_dim) * 2.0 / degrees.tp
        )
        group = group_of(degrees.cp, degrees.tp, cluster)
        time = collective_time_s("all_gather", keys * degrees.cp, group, cluster)
        forward += time * parameter("time.context_exposed")
        backward += 2.0 * time * parameter("time.context_exposed")
    dispatched = dispatched_width(block)
    if degrees.ep > 1 and dispatched:
        group = group_of(degrees.ep, 1, cluster)
        size = tokens * dispatched * 2.0 / degrees.tp * _sent_copies(block, group)
        size *= parameter("time.expert_imbalance")
        visible = parameter("time.expert_exposed")
        time = 2.0 * collective_time_s("all_to_all", size, group, cluster) * visible
        forward += time
        backward += time
    return forward, backward


def dispatched_width(block: Block) -> float:
    """Return the number of elements that one token sends to its routed experts; 0 if the block has none.

    Each of these experts gets a copy of the token's hidden state, or of its latent state.
    """
    return next(
        (product.rows * product.inputs for product in block.products if product.part == "experts"), 0.0
    )


def _sent_copies(block: Block, group: Group) -> float:
    """Return the number of copies of a token that are sent, divided by the number of its experts.

    If the ranks are on several nodes, experts on one node share one copy (DeepSeek-V3, section 3.2.2). With n
    nodes, the k experts of a token are on n (1 - (1 - 1/n)^k) nodes on average.
    """
    copies = next((product.rows for product in block.products if product.part == "experts"), 1.0)
    met = group.nodes * (1.0 - math.pow(1.0 - 1.0 / group.nodes, copies)) / copies
    return min(1.0, met) if group.nodes > 1 else 1.0


def _tensor_s(job: TransformerJob, size: float) -> float:
    cluster = job.cluster
    group = group_of(job.candidate.degrees.tp, 1, cluster)
    if not job.divides_norms:
        return collective_time_s("all_reduce", size, group, cluster)
    gather = collective_time_s("all_gather", size, group, cluster)
    return gather + collective_time_s("reduce_scatter", size, group, cluster)


def beside(communication_s: float, computation_s: float, exposed: float) -> float:
    """Return the communication time that computation does not hide.

    It consists of the part `exposed` and of the time by which the rest exceeds the computation.
    """
    return communication_s * exposed + max(0.0, communication_s * (1.0 - exposed) - computation_s)


def exposed_share(cluster: Cluster, name: str, *keys: str) -> float:
    """Return the part of data-parallel communication that is always visible, measured on this machine or
    fitted.
    """
    measured = cluster.hidden_communication
    return 1.0 - measured.value if measured is not None else parameter(name, *keys, cluster.device)


def gradients_s(job: TransformerJob, held: Held, *, forward_s: float, backward_s: float) -> float:
    """Return the visible time of reducing gradients once per step, during the last backward pass.

    If optimizer states are sharded, the time includes gathering parameters. `forward_s` and `backward_s` are
    for one micro-batch.
    """
    candidate, cluster, stack = job.candidate, job.cluster, job.stack
    degrees, total = candidate.degrees, 0.0
    exposed = exposed_share(cluster, "time.gradient_exposed") if stack.overlaps_gradients else 1.0
    # Ranks of data and context parallelism have the same gradients. Fewer of these ranks have the same
    # experts, or the same part of an expert if some ranks divide each expert.
    replicas, apart = degrees.dp * degrees.fsdp * degrees.cp, degrees.ep * held.expert_tensor
    experts = group_of(max(1, replicas * degrees.tp // apart), apart, cluster)
    for count, group in ((held.dense, group_of(replicas, degrees.tp, cluster)), (held.expert, experts)):
        if count <= 0 or group.ranks <= 1:
            continue
        size, gathered = count * held.trained_share * stack.travelling_bytes, count * held.trained_share * 2.0
        if candidate.sharding_stage == "none":
            total += beside(_steps("all_reduce", size, group, job), backward_s, exposed)
            continue
        visible = beside(_steps("reduce_scatter", size, group, job), backward_s, exposed) + beside(
            _steps("all_gather", gathered, group, job), forward_s, exposed
        )
        nests = stack.nests_lamb and job.workload.optimizer == "lamb"
        if nests and group.nodes > 1 and group.ranks_per_node > 1:
            reduce_s, gather_s = _nested_s(size, gathered, group, job)
            nested = beside(reduce_s, backward_s, exposed) + beside(gather_s, forward_s, exposed)
            visible = min(visible, nested)
        total += visible
    return total


def _nested_s(reduced: float, gathered: float, group: Group, job: TransformerJob) -> tuple[float, float]:
    """Return the time of reducing and gathering if each node has a copy of the states, sharded over the
    node's ranks.

    Gradients are reduce-scattered inside the node and reduced across nodes; then parameters are gathered
    inside the node. Only programs that request this scheme use it. Without it, a ring over thousands of ranks
    waits for each rank: NCCL uses trees for all-reduces, but one ring for scattering and gathering.
    """
    inside, across = Group(ranks=group.ranks_per_node, nodes=1), Group(ranks=group.nodes, nodes=group.nodes)
    scatter = _steps("reduce_scatter", reduced, inside, job)
    between = _steps("all_reduce", reduced / group.ranks_per_node, across, job)
    return scatter + between, _steps("all_gather", gathered, inside, job)


def _steps(collective: Collective, size: float, group: Group, job: TransformerJob) -> float:
    """Return the time for `size` in buckets, each of which waits for all hops."""
    element = 2.0 if collective == "all_gather" else job.stack.travelling_bytes
    bucket = max(parameter("time.bucket_bytes"), element * job.stack.bucket_elements(group.ranks))
    parts = max(1.0, size / bucket)
    return parts * collective_time_s(collective, size / parts, group, job.cluster)


def shards_s(
    job: TransformerJob,
    held: Held,
    layers: float,
    *,
    forward_s: float,
    backward_s: float,
    reduces: bool = True,
    regathers: bool = True,
) -> float:
    """Return the visible time of gathering and reducing fully sharded parameters for one micro-batch.

    Every layer is gathered in both passes and its gradients are reduce-scattered while neighbouring layers
    compute. Nothing hides the first gather and the last reduction, which are those of parameters outside the
    layers. `forward_s` and `backward_s` are for all `layers`. Without `reduces` a later micro-batch reduces
    the gradients. Without `regathers` weights stay gathered from the forward to the backward pass.
    """
    degrees, cluster = job.candidate.degrees, job.cluster
    group = group_of(degrees.fsdp * degrees.cp, degrees.tp, cluster)
    if group.ranks <= 1:
        return 0.0
    gathered = job.wide_bytes if job.trains_weights else job.workload.base_bits / 8
    reduced = held.trained_share * job.stack.travelling_bytes if reduces else 0.0
    dense, expert = max(0.0, held.dense - 2.0 * held.root) / layers, held.expert / layers
    if degrees.ep == 1:
        dense, expert = dense + expert, 0.0
    # The ranks with the same experts, one in each group of expert parallelism, shard the states of these
    # experts.
    apart = degrees.ep * held.expert_tensor
    sharing = degrees.fsdp * degrees.cp * degrees.tp
    # If there are more parts of the experts than ranks in a shard group, the parts are spread over replicas,
    # and all ranks of one shard group have the same experts.
    among = group_of(sharing // apart if apart <= sharing else degrees.fsdp * degrees.cp, apart, cluster)
    gather = collective_time_s("all_gather", dense * gathered, group, cluster)
    gather += collective_time_s("all_gather", expert * gathered, among, cluster)
    scatter = collective_time_s("reduce_scatter", dense * reduced, group, cluster)
    scatter += collective_time_s("reduce_scatter", expert * reduced, among, cluster)
    root_gather = collective_time_s("all_gather", held.root * gathered, group, cluster)
    root_scatter = collective_time_s("reduce_scatter", held.root * reduced, group, cluster)
    by_modules = job.stack.gathers_modules == "always"
    exposed = exposed_share(cluster, "time.shard_exposed", "modules" if by_modules else "")
    if job.workload.model.is_moe and job.stack.experts == "looped":
        exposed = 1.0  # The host waits in every block, so that no gather starts before its block.
    layer = beside(gather, forward_s / layers, exposed)
    layer += beside((gather if regathers else 0.0) + scatter, backward_s / layers, exposed)
    return layers * layer + root_gather + root_scatter


def boundary_s(job: TransformerJob, computing_s: float) -> tuple[float, float]:
    """Return the visible time of passing activations and gradients between stages, per micro-batch and per
    step.

    Stages follow each other, each on neighbouring ranks, so a boundary uses the network only if it is between
    nodes; between nodes, all ranks of a stage, or all ranks of the node, share the network.

    A stage has as many micro-batches in flight as there are stages from this stage to the last. It waits for
    the messages of the later boundaries, and this wait is divided by the number in flight. The slowest stage
    limits the pipeline. The computation of a micro-batch takes `computing_s`; the part of the messages that
    takes longer is visible in any case. Nothing hides a message while the pipeline fills and drains. With the
    schedule "layers", where one GPU computes after the other, no computation hides a message.
    """
    candidate, cluster = job.candidate, job.cluster
    degrees = candidate.degrees
    if degrees.pp == 1:
        return 0.0, 0.0
    stage = degrees.dp * degrees.fsdp * degrees.cp * degrees.tp
    key = (id(job.basis), id(cluster), job.tokens, degrees.tp, degrees.pp, stage)
    messages = _messages((job, stage), key)
    if candidate.schedule == "layers":
        return 0.0, candidate.grad_accum * messages.total_s
    exposed = parameter("time.boundary_exposed") * messages.waits_s / messages.longest_s
    return beside(degrees.vp * messages.longest_s, computing_s, exposed), messages.total_s


class _Messages(NamedTuple):
    """Seconds of the messages of one micro-batch at the boundaries between stages."""

    total_s: float
    longest_s: float
    waits_s: float
    """Wait of the slowest stage, divided by its micro-batches in flight."""


@ByKey
def _messages(job_and_stage: tuple[TransformerJob, int]) -> _Messages:
    """Return the messages if a stage has this number of ranks."""
    job, stage = job_and_stage
    cluster, degrees = job.cluster, job.candidate.degrees
    size, node = 2.0 * job.tokens * job.workload.model.hidden / degrees.tp, cluster.ranks_per_node
    # A group of two ranks on two nodes gets one rank's part of the network. Ranks of the node that send
    # nothing leave their part to the sending ranks.
    across = collective_time_s(
        "all_gather", 2.0 * size * min(1.0, stage / node), Group(ranks=2, nodes=2), cluster
    )
    inside = collective_time_s("all_gather", 2.0 * size, Group(ranks=2, nodes=1), cluster)
    each = [
        2.0 * (across if cluster.nodes > 1 and (stage > node or boundary * stage % node == 0) else inside)
        for boundary in range(1, degrees.pp)
    ]
    waits = max(sum(each[first:]) / (degrees.pp - first) for first in range(degrees.pp - 1))
    return _Messages(sum(each), max(each), waits)
