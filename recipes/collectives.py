"""How long a collective takes: latency of its algorithm plus wire bytes over bus bandwidth."""

from __future__ import annotations

import math
from typing import Literal

from probes.record import Reason, Record, Unknown
from recipes.constants import constant
from recipes.plan import Cluster

Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]


class Group(Record, kw_only=True):
    """The ranks of one collective. With fewer than all ranks of a node, a group has only its share of the node's network."""

    ranks: int
    nodes: int

    @property
    def ranks_per_node(self) -> int:
        return -(-self.ranks // self.nodes)


def world_group(cluster: Cluster) -> Group:
    """All ranks of the job."""
    return Group(ranks=cluster.world_size, nodes=cluster.nodes)


def wire_bytes(collective: Collective, size_bytes: float, ranks: int) -> float:
    """Bytes that each rank sends: 2 S (n-1)/n for all-reduce, S (n-1)/n else, S the whole tensor (nccl-tests, PERFORMANCE.md)."""
    once = size_bytes * (ranks - 1) / ranks
    return 2 * once if collective == "all_reduce" else once


def latency_s(collective: Collective, group: Group, cluster: Cluster) -> float | Unknown:
    """Time of an empty collective, by the shape of NCCL's own tuner (src/graph/tuning.cc).

    A ring passes every rank, and only hops between nodes pay the network. All-reduce may take a tree instead: a chain inside
    the node and a logarithm of the nodes between; the faster one counts. Within one NVSwitch domain the latency stays small.
    """
    intra, inter = cluster.intra_latency_s, cluster.inter_latency_s
    if (group.ranks_per_node > 1 and intra is None) or (group.nodes > 1 and inter is None):
        return Unknown(Reason.NOT_RECORDED, "latency of the links")
    intra_s, inter_s = intra.value if intra else 0.0, inter.value if inter else 0.0
    base_s = constant("nccl_base_latency_s") if cluster.device == "cuda" else 0.0
    passes = 2 if collective == "all_reduce" else 1
    network_hops = group.nodes if group.nodes > 1 else 0
    ring = passes * (max(0, group.ranks - 1 - network_hops) * intra_s + network_hops * inter_s)
    if collective != "all_reduce":
        return base_s + ring
    tree = 2 * ((group.ranks_per_node - 1) * intra_s + math.log2(group.nodes) * inter_s)
    return base_s + min(ring, tree)


def bus_bandwidth_bytes_per_s(group: Group, cluster: Cluster) -> float | Unknown:
    """Bus bandwidth of large messages: the links inside the node, or the group's share of the node's network if that is less.

    A group with k of a node's ranks runs k rings over k network ports: min(NVLink, k x port x 0.9) (NCCL rings).
    """
    limits = []
    if group.ranks_per_node > 1:
        if cluster.intra_bus_bandwidth_bytes_per_s is None:
            return Unknown(Reason.NOT_RECORDED, "bus bandwidth inside a node")
        limits.append(cluster.intra_bus_bandwidth_bytes_per_s.value)
    if group.nodes > 1:
        if cluster.inter_bus_bandwidth_bytes_per_s is None:
            return Unknown(Reason.NOT_RECORDED, "bandwidth between nodes")
        limits.append(cluster.inter_bus_bandwidth_bytes_per_s.value * min(1.0, group.ranks_per_node / cluster.ranks_per_node))
    return min(limits)


def collective_time_s(collective: Collective, size_bytes: float, group: Group, cluster: Cluster) -> float | Unknown:
    """Duration of one collective on a tensor of `size_bytes`.

    T = a + w + sqrt(a w), with the latency a and the wire time w at full bandwidth. The mixed term is what messages of middle
    size lose while the pipeline of chunks fills; with it the curve follows nccl-tests from 1 MiB to 16 GiB. Where this very
    collective was measured over the same ranks, its fit counts instead.
    """
    if group.ranks == 1 or size_bytes <= 0:
        return 0.0
    fit = cluster.collective_fits.get(collective)
    if fit is not None and group.nodes == 1 and group.ranks == cluster.ranks_per_node:
        return fit.time_s(size_bytes)
    latency = latency_s(collective, group, cluster)
    bandwidth = bus_bandwidth_bytes_per_s(group, cluster)
    if isinstance(latency, Unknown):
        return latency
    if isinstance(bandwidth, Unknown):
        return bandwidth
    wire = wire_bytes(collective, size_bytes, group.ranks) / bandwidth
    return latency + wire + math.sqrt(latency * wire)
