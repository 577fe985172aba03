"""How long a collective takes: the fastest of the algorithms that its ranks and links allow."""

from __future__ import annotations

from typing import get_args

from probes.base.record import Unknown
from recipes.machine.cluster_records import Cluster
from recipes.predict.speed.collective_algorithms import Algorithm, Collective, Group, Links, algorithms_of

__all__ = ["Algorithm", "Collective", "Group", "algorithms", "collective_time_s", "wire_bytes", "world_group"]

COLLECTIVES: tuple[Collective, ...] = get_args(Collective)


def world_group(cluster: Cluster) -> Group:
    """Return all ranks of the job."""
    return Group(ranks=cluster.world_size, nodes=cluster.nodes)


def wire_bytes(collective: Collective, size_bytes: float, ranks: int) -> float:
    """Return the bytes over a rank's link by the convention of nccl-tests (PERFORMANCE.md).

    Bus bandwidth is these bytes over time: 2 S (n-1)/n for all-reduce; S (n-1)/n for all-gather,
    reduce-scatter and all-to-all, S the larger of a rank's two buffers; S for broadcast and for a message
    between two ranks.
    """
    if collective in ("broadcast", "sendrecv"):
        return size_bytes
    once = size_bytes * (ranks - 1) / ranks
    return 2 * once if collective == "all_reduce" else once


def algorithms(collective: Collective, group: Group, cluster: Cluster) -> tuple[Algorithm, ...] | Unknown:
    """Return the algorithms that the library may choose from, each with its cost.

    Unknown where a link's rate is.
    """
    intra, inter = cluster.intra_bus_bandwidth_bytes_per_s, cluster.inter_bus_bandwidth_bytes_per_s
    hop, network_hop = cluster.intra_latency_s, cluster.inter_latency_s
    return algorithms_of(
        collective,
        group.ranks,
        group.nodes,
        Links(
            cluster.device,
            cluster.architecture,
            cluster.fabric,
            cluster.transport,
            cluster.ranks_per_node,
            cluster.domain_ranks,
            intra.value if intra else None,
            intra.basis == "measured" if intra else False,
            hop.value if hop else None,
            hop.basis == "measured" if hop else False,
            inter.value if inter else None,
            network_hop.value if network_hop else None,
            network_hop.basis == "measured" if network_hop else False,
        ),
    )


def collective_time_s(
    collective: Collective, size_bytes: float, group: Group, cluster: Cluster
) -> float | Unknown:
    """Return the duration of one collective, seconds.

    `size_bytes` is the larger of a rank's buffers, the size of nccl-tests. If the same collective was
    measured over the same ranks, its fit counts; else the fastest algorithm does.
    """
    if group.ranks == 1 or size_bytes <= 0:
        return 0.0
    if cluster.collective_fits:
        fit = cluster.collective_fits.get(collective)
        if fit is not None and group.nodes == 1 and group.ranks == cluster.ranks_per_node:
            return fit.time_s(size_bytes)
    candidates = algorithms(collective, group, cluster)
    if isinstance(candidates, Unknown):
        return candidates
    if len(candidates) == 1:
        return candidates[0].time_s(size_bytes)
    return min([algorithm.time_s(size_bytes) for algorithm in candidates])
