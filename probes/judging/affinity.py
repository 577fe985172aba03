"""Derive the NICs and CPUs that belong to each GPU from the facts.

A rank sends through the training port at the shortest PCIe distance. Among equally near ports, those of the
rank's NUMA node come first, and GPUs with the same choice share the ports evenly. A value that cannot be
derived from the facts remains unknown. Source: NCCL user guide, NCCL_CROSS_NIC and NCCL_NET_GDR_LEVEL;
linux-rdma/perftest#241.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, items_of, known
from probes.facts import Gpu, LinkKind, MachineFacts, State
from probes.judging.rails import NEAR, roles_of, training_rails
from probes.judging.reporting import fold_names, subject_name
from probes.parsers.host.cpulist import parse_cpu_list

NEAREST_FIRST: tuple[LinkKind, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")
_NO_PATH = Unknown(Reason.NOT_RECORDED, "no distance between this GPU and the training ports")
_ALL_FAR = Unknown(
    Reason.NOT_RECORDED,
    "all training ports are equally far (SYS), and none is known to be in the NUMA node of the GPU",
)
_NO_NODE = Unknown(Reason.NOT_SUPPORTED, "the platform reports no NUMA node for this GPU")
_NO_CPU = Unknown(Reason.PERMISSION, "this process may use no CPU near this GPU")


class Affinity(Record, kw_only=True):
    """The place of one GPU in the machine."""

    gpu: str
    """`GPU0`."""
    nics: tuple[str, ...] | Unknown
    """RDMA devices through which the GPU should send; empty if the machine has no RDMA port that is up."""
    kind: LinkKind | Unknown | None = None
    """Distance to `nics`; None if `nics` is empty."""
    cpus: str | Unknown
    """CPUs to which the rank should be bound, in the kernel's notation."""
    numa_node: int | Unknown
    """NUMA node from which the rank should take memory."""
    why: str = ""
    """Reason for the choice of `nics`."""


class ProbeReport(MachineFacts, kw_only=True):
    """The facts and the conclusions from them, which `rigtune probe --format json` prints."""

    affinity: tuple[Affinity, ...] | Unknown
    """One entry for each GPU, in the order of the GPUs."""
    nic_roles: tuple[State, ...] | Unknown
    """Role of each port (`mlx5_0`, `mlx4_0:2`), as `probes.judging.rails.roles_of` names it."""


def report_of(facts: MachineFacts) -> ProbeReport:
    """Return the facts with the conclusions from them."""
    roles = roles_of(facts)
    return ProbeReport(
        **{name: getattr(facts, name) for name in MachineFacts.__struct_fields__},
        affinity=affinity_of(facts),
        nic_roles=roles
        if isinstance(roles, Unknown)
        else tuple(
            State(name=subject_name(nic), value=roles[nic.name, nic.port]) for nic in items_of(facts.nics)
        ),
    )


def affinity_of(facts: MachineFacts) -> tuple[Affinity, ...] | Unknown:
    """Return the affinity of all GPUs, in their order; empty if there is no GPU."""
    if isinstance(facts.gpus, Unknown):
        return facts.gpus
    ports = _ports(facts)
    if isinstance(ports, Unknown):
        unknown = _Share(ports, ports, "the RDMA devices are not known")
        return tuple(_with_cpus(gpu, unknown, facts) for gpu in facts.gpus)
    shares = _shares(facts.gpus, ports)
    return tuple(_with_cpus(gpu, shares[gpu.index], facts) for gpu in facts.gpus)


class _Ports(NamedTuple):
    """The RDMA devices that may be assigned to a GPU, and the devices that are down."""

    up: tuple[str, ...]
    down: tuple[str, ...]
    distances: Mapping[tuple[str, str], LinkKind]
    """Distance by GPU and device."""
    nodes: Mapping[str, int]
    """NUMA node by device."""


class _Share(NamedTuple):
    nics: tuple[str, ...] | Unknown
    kind: LinkKind | Unknown | None
    why: str


def _ports(facts: MachineFacts) -> _Ports | Unknown:
    """Return the devices that can be assigned to GPUs.

    If the facts show which ports are for training, only these count. Otherwise, only ports below a GPU's PCIe
    switch count, or all ports if no port is below such a switch.
    """
    distances: dict[tuple[str, str], LinkKind] = {}
    others: dict[str, None] = {}
    for link in items_of(facts.links):
        gpu, other = (link.a, link.b) if link.a.startswith("GPU") else (link.b, link.a)
        if gpu.startswith("GPU") and not other.startswith("GPU"):
            others[other] = None
            if not isinstance(link.kind, Unknown):
                distances[gpu, other] = link.kind
    nics = items_of(facts.nics)
    stated = {nic.name: nic.numa_node for nic in nics if isinstance(nic.numa_node, int)}
    nodes = _implied_nodes(items_of(facts.gpus), distances) | stated
    if known(roles_of(facts)):
        rails = training_rails(facts)
        up = dict.fromkeys(nic.name for nic in (*rails.active, *rails.slower))
        down = dict.fromkeys(nic.name for nic in rails.down if nic.name not in up)
        return _Ports(_natural(up), _natural(down), distances, nodes)
    names = dict.fromkeys(nic.name for nic in nics) or others
    if not names:
        return facts.nics if isinstance(facts.nics, Unknown) else NOT_RECORDED
    # Without states of ports, only the place distinguishes training ports from storage ports.
    near = {nic for (_, nic), kind in distances.items() if kind in NEAR}
    return _Ports(_natural([name for name in names if not near or name in near]), (), distances, nodes)


def _implied_nodes(gpus: Sequence[Gpu], distances: Mapping[tuple[str, str], LinkKind]) -> dict[str, int]:
    """Return the NUMA nodes of devices below the host bridge of a GPU.

    A device below the bridges of several nodes is left out: the virtual machine hides its place.
    """
    nodes = {subject_name(gpu): gpu.numa_node for gpu in gpus if isinstance(gpu.numa_node, int)}
    nodes_of_nic: dict[str, set[int]] = {}
    for (gpu, nic), kind in distances.items():
        if kind in (*NEAR, "PHB") and gpu in nodes:
            nodes_of_nic.setdefault(nic, set()).add(nodes[gpu])
    return {nic: next(iter(where)) for nic, where in nodes_of_nic.items() if len(where) == 1}


def _natural(names: Sequence[str] | Mapping[str, None]) -> tuple[str, ...]:
    """Return names in natural order: `mlx5_2` before `mlx5_10`."""
    stems = {name: name.rstrip("0123456789") for name in names}
    return tuple(sorted(names, key=lambda name: (stems[name], int(name[len(stems[name]) :][:9] or -1))))


def _shares(gpus: Sequence[Gpu], ports: _Ports) -> dict[int, _Share]:
    """Share the ports out among the GPUs.

    GPUs with the nearest ports choose first, so that a GPU without a port close by gets the least used port.
    """
    shares: dict[int, _Share] = {}
    groups: dict[tuple[int, tuple[str, ...]], list[Gpu]] = {}
    choices = {gpu.index: _choice(gpu, ports) for gpu in gpus}
    for gpu in gpus:
        choice = choices[gpu.index]
        if known(choice.nics) and choice.nics:
            rank = NEAREST_FIRST.index(choice.kind) if isinstance(choice.kind, str) else len(NEAREST_FIRST)
            groups.setdefault((rank, choice.nics), []).append(gpu)
        else:
            shares[gpu.index] = choice
    # GPUs with the same choice of ports form a group. Groups with nearer ports are served first.
    load: Counter[str] = Counter()
    for (_, nics), sharing in sorted(groups.items(), key=lambda item: (item[0][0], item[1][0].index)):
        free = [nic for nic in nics if not load[nic]]
        for gpu, given in zip(sharing, _dealt(len(sharing), free, nics, load), strict=True):
            load.update(given)
            choice = choices[gpu.index]
            shares[gpu.index] = choice._replace(nics=given, why=choice.why + _shared(sharing, nics))
    return shares


def _dealt(
    number: int, free: Sequence[str], nics: Sequence[str], load: Counter[str]
) -> list[tuple[str, ...]]:
    """Return the ports of each of `number` GPUs.

    The GPUs get equal parts of the free ports, in order. If there are fewer free ports than GPUs, each GPU
    gets one of them, and some GPUs share a port. If no port is free, each GPU gets one of the ports that the
    fewest GPUs use.
    """
    if len(free) >= number:
        # Even parts in order; the first GPUs get one port more if the division leaves a remainder.
        least, more = divmod(len(free), number)
        starts = [position * least + min(position, more) for position in range(number + 1)]
        return [tuple(free[start:end]) for start, end in itertools.pairwise(starts)]
    if free:
        return [(free[position * len(free) // number],) for position in range(number)]
    ordered = sorted(nics, key=lambda nic: load[nic])
    return [(ordered[position % len(ordered)],) for position in range(number)]


def _shared(gpus: Sequence[Gpu], nics: Sequence[str]) -> str:
    if len(gpus) == 1:
        return ""
    names = fold_names([subject_name(gpu) for gpu in gpus])
    return f", shared among {names}" if len(nics) > 1 else f", the same for {names}"


def _choice(gpu: Gpu, ports: _Ports) -> _Share:
    """Return all ports that are equally good for one GPU."""
    name = subject_name(gpu)
    if not ports.up:
        return _Share(
            (),
            None,
            f"no training port is up ({fold_names(ports.down)} down)" if ports.down else "no RDMA device",
        )
    at = grouped((ports.distances[name, nic], nic) for nic in ports.up if (name, nic) in ports.distances)
    kind = next((kind for kind in NEAREST_FIRST if kind in at), None)
    # Among ports at the same distance, the ports of the GPU's NUMA node avoid the link between sockets.
    same_node = [
        nic
        for nic in (at[kind] if kind else ports.up)
        if nic in ports.nodes and ports.nodes[nic] == gpu.numa_node
    ]
    if kind is None:
        why = "a training port of the same NUMA node; the PCIe distances are unknown"
        return (
            _Share(tuple(same_node), _NO_PATH, why)
            if same_node
            else _Share(_NO_PATH, _NO_PATH, _NO_PATH.detail)
        )
    if kind == "SYS" and len(at[kind]) > 1 and not same_node:
        return _Share(_ALL_FAR, kind, _ALL_FAR.detail)
    narrowed = 0 < len(same_node) < len(at[kind])
    why = f"nearest training port ({kind})" + (" of the same NUMA node" if narrowed else "")
    return _Share(tuple(same_node or at[kind]), kind, why + _nearer_but_down(name, kind, ports))


def _nearer_but_down(gpu: str, kind: LinkKind, ports: _Ports) -> str:
    rank = NEAREST_FIRST.index(kind)
    nearer = [
        nic
        for nic in ports.down
        if (gpu, nic) in ports.distances and NEAREST_FIRST.index(ports.distances[gpu, nic]) < rank
    ]
    return f", as {fold_names(nearer)} is down" if nearer else ""


def _with_cpus(gpu: Gpu, share: _Share, facts: MachineFacts) -> Affinity:
    node = _node(gpu, facts)
    return Affinity(
        gpu=subject_name(gpu),
        nics=share.nics,
        kind=share.kind,
        cpus=_cpus(gpu, node, facts),
        numa_node=node,
        why=share.why,
    )


def _node(gpu: Gpu, facts: MachineFacts) -> int | Unknown:
    """Return the NUMA node of a GPU.

    The node that the platform reports is used first. Otherwise, the only node with CPUs is used, or the node
    that contains all CPUs near the GPU.
    """
    if isinstance(gpu.numa_node, int):
        return gpu.numa_node
    nodes = [node for node in items_of(facts.numa_nodes) if node.can_hold_ranks]
    if len(nodes) == 1:
        return nodes[0].index
    near = _numbers(gpu.cpu_affinity)
    holding = [node.index for node in nodes if near and near <= _numbers(node.cpus)]
    if len(holding) == 1:
        return holding[0]
    return _NO_NODE if gpu.numa_node is None else gpu.numa_node


def _cpus(gpu: Gpu, node: int | Unknown, facts: MachineFacts) -> str | Unknown:
    """Return the CPUs near a GPU as the driver or the kernel lists them, or else those of its NUMA node."""
    if isinstance(gpu.cpu_affinity, str):
        return gpu.cpu_affinity or _NO_CPU
    cpus: list[str] = [
        candidate.cpus
        for candidate in items_of(facts.numa_nodes)
        if candidate.index == node and isinstance(candidate.cpus, str)
    ]
    return cpus[0] if cpus and cpus[0] else gpu.cpu_affinity


def _numbers(cpus: str | Unknown) -> frozenset[int]:
    numbers = parse_cpu_list(cpus) if isinstance(cpus, str) else ()
    return frozenset() if isinstance(numbers, Unknown) else frozenset(numbers)
