"""Duration of a collective: measured, or with the fastest algorithm that its ranks and links allow."""

import functools
import math
from typing import Literal, NamedTuple, get_args

from probes.base.record import Reason, Record, Unknown
from recipes.machine.cluster_records import Cluster
from recipes.predict.parameters import parameter
from recipes.predict.training_job import ByKey

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "sendrecv"]

_SWITCH_REDUCES = frozenset({"hopper", "blackwell"})
"""Architectures whose NVSwitch can do the reduction itself (NVLS)."""
_RANKS_PER_SOCKET = 4
"""Maximum number of PCIe GPUs on one socket of a usual server; a ring over more GPUs crosses sockets."""


class Group(Record, kw_only=True):
    """The ranks of one collective.

    A group with fewer than all ranks of a node has only its share of the node's network.
    """

    ranks: int
    nodes: int

    @property
    def ranks_per_node(self) -> int:
        return -(-self.ranks // self.nodes)


class Links(NamedTuple):
    """Properties of a cluster that determine its collectives, as in `Cluster`.

    On GPUs a measured latency is used if there is one, otherwise the fitted figures for the fabric and the
    transport.
    """

    device: str
    architecture: str
    fabric: str
    transport: str
    ranks_per_node: int
    domain_ranks: int | None
    intra_bandwidth: float | None
    intra_bandwidth_measured: bool
    hop_s: float | None
    hop_measured: bool
    inter_bandwidth: float | None
    network_hop_s: float | None
    network_hop_measured: bool


class Algorithm(NamedTuple):
    """The cost of one collective with one algorithm, as a function of size."""

    name: str
    latency_s: float
    wire_s_per_byte: float
    """Seconds on the wire per byte of the collective's size, at full bandwidth."""
    delay_s: float
    """Seconds that a large message is delayed in addition to its latency and wire time."""
    knee: float
    """Wire time, as a part of the delay, at which half of the delay has been added."""

    def time_s(self, size_bytes: float) -> float:
        """Return the duration with `size_bytes`, seconds."""
        wire = self.wire_s_per_byte * size_bytes
        if wire <= 0.0 or self.delay_s <= 0.0:
            return self.latency_s + wire
        return self.latency_s + wire + wire * self.delay_s / (wire + self.knee * self.delay_s)


class _Shape(NamedTuple):
    """A group divided into its domains of direct links, with the rates and delays of its links."""

    ranks: int
    per_node: int
    nodes: int
    domains: int
    members: int
    """Number of ranks of one domain."""
    launch_s: float
    hop_s: float
    network_hop_s: float
    chunk_hops: float
    network_chunk_hops: float
    ring: float
    """Bus bandwidth of a ring inside a domain, bytes/s."""
    network: float
    """Bus bandwidth between domains of all members of a domain together, bytes/s."""
    ramp_s: float
    knee: float
    copied: float
    """Cost of copying a byte of a rank's own part, relative to a byte on the ring."""


@functools.lru_cache(maxsize=16384)
def _algorithms_of(collective: Collective, group: tuple[int, int], links: Links) -> tuple[Algorithm, ...]:
    """Return the algorithms for one collective of a group of ranks."""
    shape = _shape(*group, links)
    if collective == "all_reduce":
        return _all_reduce(shape, links)
    if collective == "all_to_all":
        return (_all_to_all(shape, links),)
    if collective == "sendrecv":
        return (_sendrecv(shape, links),)
    return (_broadcast(shape),) if collective == "broadcast" else _gather(shape)


def _domains(nodes: int, domain_ranks: int | None, ranks_per_node: int) -> int:
    return -(-nodes // max(1, (domain_ranks or 0) // ranks_per_node))


def _keys(links: Links) -> tuple[str, str]:
    return f"{links.fabric}-{links.architecture}", links.fabric


def _shape(ranks: int, nodes: int, links: Links) -> _Shape:
    per_node, domains = -(-ranks // nodes), _domains(nodes, links.domain_ranks, links.ranks_per_node)
    keys = _keys(links)
    cuda = links.device == "cuda"
    members = -(-ranks // domains)
    ring = _ring_bandwidth(members, links)
    part = min(1.0, per_node / links.ranks_per_node)
    network = (links.inter_bandwidth or math.inf) * -(-nodes // domains) * part
    share = parameter("collective.small_share", *keys)
    ramp_s = 0.0
    if cuda and members > 1:
        ramp_s = parameter("collective.ramp_bytes", *keys) / ring
    if cuda and domains > 1:
        ramp_s += parameter("collective.network_ramp_bytes", links.transport) * members / network
    return _Shape(
        ranks=ranks,
        per_node=per_node,
        nodes=nodes,
        domains=domains,
        members=members,
        # a measured hop is the time of a small collective, launch included, divided by its number of hops
        launch_s=parameter("collective.launch_s", *keys) if cuda and not links.hop_measured else 0.0,
        hop_s=(links.hop_s or 0.0)
        if links.hop_measured or not cuda
        else parameter("collective.hop_s", *keys),
        network_hop_s=links.network_hop_s or 0.0
        if links.network_hop_measured or not cuda
        else parameter("collective.network_hop_s", links.transport),
        chunk_hops=parameter("collective.chunk_hops", *keys),
        network_chunk_hops=parameter("collective.chunk_hops", "network"),
        ring=ring,
        network=network,
        ramp_s=ramp_s,
        knee=share / (1.0 - share),
        copied=parameter("collective.copied_share", *keys),
    )


def _ring_bandwidth(members: int, links: Links) -> float:
    """Return the bus bandwidth of a ring over `members` ranks of a domain.

    A measurement over the whole node may have used NVLS instead of a ring.
    """
    if links.intra_bandwidth is None:
        return math.inf
    if links.intra_bandwidth_measured:
        if not _reduces_in_switch(links):
            return links.intra_bandwidth
        gain = 2 * (links.ranks_per_node - 1) / (links.ranks_per_node + 1)
        return links.intra_bandwidth / max(1.0, gain * parameter("collective.nvls_share", links.architecture))
    ring = links.intra_bandwidth * parameter("collective.ring_share", *_keys(links))
    if links.fabric == "pcie" and members > _RANKS_PER_SOCKET:
        ring *= parameter("collective.socket_share")
    return ring


def _reduces_in_switch(links: Links) -> bool:
    return links.fabric == "nvswitch" and links.architecture in _SWITCH_REDUCES


def _algorithm(
    name: str, shape: _Shape, hops: float, network_hops: float, *, wire: float, passes: float
) -> Algorithm:
    """Return an algorithm with latency from hops inside and between domains.

    The delay comes from the same hops with full chunks and from `passes` ramps.
    """
    slow = (shape.chunk_hops - 1.0) * hops * shape.hop_s
    if network_hops:
        slow += (shape.network_chunk_hops - 1.0) * network_hops * shape.network_hop_s
    return Algorithm(
        name=name,
        latency_s=shape.launch_s + hops * shape.hop_s + network_hops * shape.network_hop_s,
        wire_s_per_byte=wire,
        delay_s=max(0.0, slow) + passes * shape.ramp_s,
        knee=shape.knee,
    )


def _ring_wire(shape: _Shape) -> float:
    """Return the seconds per byte of S for one pass of the ring, which moves S (n-1)/n over each link; the
    slowest link decides.
    """
    limit = shape.ring if shape.domains == 1 else min(shape.ring, shape.network)
    return (shape.ranks - 1) / shape.ranks / limit


def _all_reduce(shape: _Shape, links: Links) -> tuple[Algorithm, ...]:
    steps, network_steps = 2 * (shape.ranks - shape.domains), 2 * (shape.domains - 1)
    ring = _algorithm("ring", shape, steps, network_steps, wire=2 * _ring_wire(shape), passes=2)
    # the algorithm has a chain inside the node, a tree over the nodes of a domain, and a tree over the
    # domains
    climbs = 2 * (shape.per_node - 1) + 2 * math.log2(shape.nodes / shape.domains)
    network_climbs = 2 * math.log2(shape.domains)
    # there are two trees, each with half of the data: a domain is a leaf in one tree; in the other it sends
    # to its parent and to two children
    network_wire = 0.0
    if shape.domains > 1:
        network_wire = (1.0 if shape.domains == 2 else 2.0) / shape.network
    inside = 2 * (shape.members - 1) / shape.members / shape.ring / parameter("collective.tree_share")
    tree = _algorithm("tree", shape, climbs, network_climbs, wire=max(inside, network_wire), passes=2)
    if not _reduces_in_switch(links) or shape.members < 2:
        return ring, tree
    # every rank sends its data to the switch, which adds them up, and then broadcasts its part of the sum: S
    # + S/n over its link
    spans = "domain" if shape.nodes > shape.domains else ""
    rate = shape.ring * parameter("collective.nvls_share", spans, links.architecture)
    inside = (shape.members + 1) / shape.members / rate
    nvls = _algorithm(
        "nvls",
        shape,
        0.0,
        network_climbs,
        wire=max(inside, network_wire),
        passes=1 if shape.domains == 1 else 2,
    )
    # the measured small all-reduce used the fastest algorithm
    inside_s = (
        steps * shape.hop_s if links.hop_measured else parameter("collective.nvls_s", links.architecture)
    )
    flat_s = nvls.latency_s + inside_s
    return ring, tree, nvls._replace(name="nvls" if shape.domains == 1 else "nvlstree", latency_s=flat_s)


def _gather(shape: _Shape) -> tuple[Algorithm, ...]:
    """Return the ring for all-gather and reduce-scatter: one pass, during which a rank also copies its own
    part. If each of more than two domains has one rank, also return the algorithm PAT.
    """
    wire = _ring_wire(shape) + (shape.copied / shape.ranks / shape.ring if shape.members > 1 else 0.0)
    ring = _algorithm("ring", shape, shape.ranks - shape.domains, shape.domains - 1, wire=wire, passes=1)
    if shape.members > 1 or shape.domains <= 2:
        return (ring,)
    return ring, _algorithm("pat", shape, 0.0, math.log2(shape.domains), wire=wire, passes=1)


def _all_to_all(shape: _Shape, links: Links) -> Algorithm:
    """Return the exchange in which every rank sends S/n to every other.

    Inside the domain it uses the domain's links, and beyond it the rank's share of the network.
    """
    inside = 0.0
    if shape.members > 1:
        rate = shape.ring * parameter("collective.exchange_share", *_keys(links))
        inside = (shape.members - 1) / shape.ranks / rate + shape.copied / shape.ranks / shape.ring
    outside = (
        (shape.ranks - shape.members) / shape.ranks * shape.members / shape.network
        if shape.domains > 1
        else 0.0
    )
    hops = 1 + math.log2(shape.members) if shape.members > 1 else 0.0
    network_hops = 1 + math.log2(shape.domains) if shape.domains > 1 else 0.0
    exchange = _algorithm("exchange", shape, hops, network_hops, wire=max(inside, outside), passes=1)
    peers_s = (shape.ranks - shape.members) * parameter("collective.peer_s")
    return exchange._replace(latency_s=exchange.latency_s + peers_s)


def _broadcast(shape: _Shape) -> Algorithm:
    limit = shape.ring if shape.domains == 1 else min(shape.ring, shape.network)
    return _algorithm("ring", shape, shape.ranks - shape.domains, shape.domains - 1, wire=1 / limit, passes=1)


def _sendrecv(shape: _Shape, links: Links) -> Algorithm:
    """Return the cost of a message to a neighbour.

    Between domains it uses a rank's share of the network.
    """
    if shape.domains > 1:
        return _algorithm("message", shape, 0.0, 1.0, wire=shape.members / shape.network, passes=1)
    rate = shape.ring * parameter("collective.exchange_share", *_keys(links))
    return _algorithm("message", shape, 2.0, 0.0, wire=1 / rate, passes=1)


COLLECTIVES: tuple[Collective, ...] = get_args(Collective)


def world_group(cluster: Cluster) -> Group:
    """Return the group of all ranks of the job."""
    return Group(ranks=cluster.world_size, nodes=cluster.nodes)


def wire_bytes(collective: Collective, size_bytes: float, ranks: int) -> float:
    """Return the bytes over a rank's link by the convention of nccl-tests (PERFORMANCE.md).

    Bus bandwidth is these bytes divided by the time: 2 S (n-1)/n for all-reduce; S (n-1)/n for all-gather,
    reduce-scatter and all-to-all, S the larger of a rank's two buffers; S for broadcast and for a message
    between two ranks.
    """
    if collective in ("broadcast", "sendrecv"):
        return size_bytes
    once = size_bytes * (ranks - 1) / ranks
    return 2 * once if collective == "all_reduce" else once


def unknown_link(group: Group, cluster: Cluster, *measured: Collective) -> Unknown | None:
    """Return which link of a group has an unknown bandwidth or latency; None if all are known.

    For ranks of one node, no figures of links are needed if all collectives in `measured` were measured on
    the machine.
    """
    domains = _domains(group.nodes, cluster.domain_ranks, cluster.ranks_per_node)
    place = "node" if group.ranks_per_node > 1 else "domain"
    if measured and group.nodes == 1 and cluster.collective_fits.keys() >= set(measured):
        return None
    if (group.ranks_per_node > 1 or group.nodes > domains) and (
        cluster.intra_bus_bandwidth_bytes_per_s is None or cluster.intra_latency_s is None
    ):
        return Unknown(Reason.NOT_RECORDED, f"latency or bandwidth inside a {place}")
    if domains > 1 and (cluster.inter_bus_bandwidth_bytes_per_s is None or cluster.inter_latency_s is None):
        return Unknown(Reason.NOT_RECORDED, "latency or bandwidth between nodes")
    return None


def algorithms(collective: Collective, group: Group, cluster: Cluster) -> tuple[Algorithm, ...]:
    """Return the algorithms that the communication library may choose from, each with its cost.

    The links must be known (`unknown_link`).
    """
    key = (id(cluster), collective, group.ranks, group.nodes)
    return _algorithms((collective, group, cluster), key)


@ByKey
def _algorithms(of: tuple[Collective, Group, Cluster]) -> tuple[Algorithm, ...]:
    collective, group, cluster = of
    return _algorithms_of(collective, (group.ranks, group.nodes), _links_of(cluster))


def _links_of(cluster: Cluster) -> Links:
    intra, inter = cluster.intra_bus_bandwidth_bytes_per_s, cluster.inter_bus_bandwidth_bytes_per_s
    hop, network_hop = cluster.intra_latency_s, cluster.inter_latency_s
    return Links(
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
    )


def collective_time_s(collective: Collective, size_bytes: float, group: Group, cluster: Cluster) -> float:
    """Return the duration of one collective over known links, seconds.

    `size_bytes` is the size of the larger of a rank's buffers, as in nccl-tests. If the group is all ranks of
    one node and the collective was measured there, the result is the fit to these measurements; otherwise it
    is the duration with the fastest algorithm.
    """
    if group.ranks == 1 or size_bytes <= 0:
        return 0.0
    if cluster.collective_fits:
        fit = cluster.collective_fits.get(collective)
        if fit is not None and group.nodes == 1 and group.ranks == cluster.ranks_per_node:
            return fit.time_s(size_bytes)
    return min([algorithm.time_s(size_bytes) for algorithm in algorithms(collective, group, cluster)])
