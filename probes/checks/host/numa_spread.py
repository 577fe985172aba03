"""Check that the NUMA nodes and the PCIe topology are visible, and that GPUs and memory are spread evenly.

Without the NUMA node of each GPU and NIC neither NCCL nor a launcher can bind ranks near their GPU. Boards
with eight GPUs behind NVSwitches are built into servers with two sockets. If all eight report one NUMA node,
the firmware interleaves the memory of the sockets or the hypervisor hides the second node. If all GPUs are on
one of two sockets, they share its memory bandwidth and PCIe roots; an uneven spread often means that a GPU is
missing. A virtual machine that hides link speeds and nodes leaves NCCL without paths. Source:
NVIDIA/nvbandwidth, affinity (copies across sockets were measured at a third of the rate); NVIDIA HGX
reference architecture; NCCL user guide, NUMA binding; NVIDIA/nccl, src/graph/xml.cc (defaults of NCCL without
sysfs); Linux EDAC documentation (memory).
"""

from collections import Counter
from collections.abc import Iterator

from probes.base.record import Reason, Unknown, first_unknown, items_of, known
from probes.base.units import gib, percent, plural
from probes.facts import Gpu, MachineFacts, Nic, NumaNode
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import (
    HOST,
    Judged,
    evidence_of,
    judge_each,
    on_fact,
    on_gpus,
    subject_name,
    unknown_among,
)

KNOWN = Judge(
    check_id="numa",
    why="Ranks cannot be bound near their GPU and NIC, and copies across sockets take up to three times as "
    "long.",
)
HIDDEN = Judge(
    check_id="numa-hidden",
    why="Ranks, their memory and their NIC cannot be kept on one socket, so half of all copies cross to the "
    "other socket.",
)
SOCKETS = Judge(
    check_id="gpu-sockets",
    why="If all GPUs are on one socket, they share its memory bandwidth while the other socket is idle.",
)
VISIBLE = Judge(
    check_id="topology-visible",
    why="Without distances and speeds, NCCL chooses slow paths and may refuse peer-to-peer.",
)
BALANCE = Judge(
    check_id="memory-balance",
    why="A node with less memory has lost a module: its memory is slower, and its ranks run out of memory "
    "first.",
)


@on_gpus(KNOWN)
def numa(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    count = _node_count(evidence.facts)
    if isinstance(count, Unknown):
        yield KNOWN.undetermined(HOST, count, what="the NUMA nodes")
    elif count < 2:
        part = "NUMA node" if items_of(evidence.facts.numa_nodes) else "socket"
        yield KNOWN.skipped(HOST, f"this machine has one {part}")
    else:
        yield from judge_each(
            KNOWN, gpus, _judge, what="the NUMA node", good="the NUMA node of every GPU is known"
        )
        rails = training_rails(evidence.facts).active
        yield from judge_each(
            KNOWN, rails, _judge, what="the NUMA node", good="the NUMA node of every training port is known"
        )


def _judge(device: Gpu | Nic) -> Judged:
    if isinstance(device.numa_node, Unknown):
        return device.numa_node
    if device.numa_node is not None:
        return f"node {device.numa_node}"
    return KNOWN.warned(
        subject_name(device),
        "the platform reports no NUMA node for this device",
        expected="a NUMA node",
        observed="-1 (none)",
        remedy=Remedy(
            text="Look at the BIOS settings of NUMA and PCIe; in a virtual machine ask for the host's "
            "topology.",
            command="lstopo",
        ),
    )


def _node_count(facts: MachineFacts) -> int | Unknown:
    """Return the number of nodes with CPUs, or the number of sockets if no node was read.

    Ranks cannot run on nodes of GPU memory or CXL memory.
    """
    nodes = items_of(facts.numa_nodes)
    return sum(node.can_hold_ranks for node in nodes) if nodes else facts.cpu.sockets


@on_gpus(HIDDEN)
def numa_hidden(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    nodes, refs = {gpu.numa_node for gpu in gpus}, evidence_of(gpus)
    unread = first_unknown(*nodes)
    if not _is_switched(gpus, evidence):
        return HIDDEN.skipped(HOST, "the NVLinks show no board with eight GPUs behind NVSwitches")
    if unread is not None:
        return HIDDEN.undetermined(HOST, unread, what="the NUMA nodes of the GPUs", evidence=refs)
    if nodes == {None}:
        return HIDDEN.skipped(HOST, "the platform reports no NUMA node at all", evidence=refs)
    if len(nodes) > 1:
        return HIDDEN.passed(
            HOST, "the GPUs are on several NUMA nodes", observed=f"{len(nodes)} nodes", evidence=refs
        )
    return HIDDEN.warned(
        HOST,
        "all GPUs report one NUMA node on a server with two sockets",
        expected="at least two NUMA nodes",
        observed=f"node {next(iter(nodes))} for all {plural(len(gpus), 'GPU')}",
        remedy=Remedy(
            text="Turn node interleaving off and NUMA on in the BIOS; a virtual machine needs the nodes of "
            "its host.",
            command="numactl -H",
        ),
        evidence=refs,
    )


def _is_switched(gpus: tuple[Gpu, ...], evidence: Evidence) -> bool:
    """Return whether this is a whole board with NVSwitches, according to the NVLinks of every pair."""
    limits, links = evidence.thresholds, items_of(evidence.facts.links)
    pairs = [link for link in links if link.a.startswith("GPU") and link.b.startswith("GPU")]
    is_whole = len(gpus) >= limits.gpus_of_switched_board.value and len(pairs) >= len(gpus) - 1
    fewest = limits.links_of_switched_pair_minimum.value
    return is_whole and all(link.kind == "NVLINK" and (link.nvlink_count or 0) >= fewest for link in pairs)


@on_gpus(SOCKETS)
def gpu_sockets(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    fewest = evidence.thresholds.gpus_on_two_sockets_minimum
    if len(gpus) < fewest.value:
        return SOCKETS.skipped(HOST, f"fewer than {fewest.value:.0f} GPUs", evidence=(fewest.ref,))
    nodes = [gpu.numa_node for gpu in gpus]
    unread = first_unknown(*nodes)
    if unread is not None or None in nodes:
        by_node = _spread_over_nodes(gpus, evidence)
        return by_node or SOCKETS.undetermined(
            HOST, unread or Unknown(Reason.NOT_SUPPORTED, "no NUMA node is reported"), what="the NUMA nodes"
        )
    socket_of = _sockets_by_node(evidence.facts)
    if isinstance(socket_of, Unknown):
        by_node = _spread_over_nodes(gpus, evidence)
        return by_node or SOCKETS.undetermined(HOST, socket_of, what="the sockets of the NUMA nodes")
    if len(set(socket_of.values())) < 2:
        return SOCKETS.skipped(HOST, "this machine has one socket")
    counts = Counter(socket_of.get(node, node) for node in nodes if isinstance(node, int))
    observed = ", ".join(f"{count} on socket {socket}" for socket, count in sorted(counts.items()))
    is_lopsided = len(counts) == 1
    if is_lopsided or len(set(counts.values())) > 1:
        return _uneven(
            "all GPUs are on one socket" if is_lopsided else "the GPUs are spread unevenly over the sockets",
            observed,
        )
    return SOCKETS.passed(HOST, "the GPUs are spread evenly", observed=observed)


def _spread_over_nodes(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding | None:
    """Judge the spread over NUMA nodes or lists of near CPUs, if the number of sockets was not recorded.

    GPUs that are joined by NVLink but are only a part of a board may be the GPUs of a single job. If all GPUs
    are on one node, the machine may have only this node. In both cases, and for small differences, no finding
    is returned.
    """
    sockets = evidence.facts.cpu.sockets
    if not isinstance(sockets, Unknown) or sockets.reason is not Reason.NOT_RECORDED:
        return None
    places = [gpu.numa_node if isinstance(gpu.numa_node, int) else gpu.cpu_affinity for gpu in gpus]
    counts = Counter(place for place in places if known(place) and place != "")
    is_part = len(gpus) % evidence.thresholds.gpus_of_switched_board.value and any(
        link.kind == "NVLINK" for link in items_of(evidence.facts.links)
    )
    if counts.total() < len(gpus) or len(counts) < 2 or is_part:
        return None
    observed = ", ".join(
        f"{count} on {'node' if isinstance(place, int) else 'CPUs'} {place}"
        for place, count in sorted(counts.items(), key=lambda item: str(item[0]))
    )
    if len(set(counts.values())) == 1:
        return SOCKETS.passed(HOST, "the GPUs are spread evenly over the NUMA nodes", observed=observed)
    if max(counts.values()) - min(counts.values()) < 2:
        return None
    return _uneven("the GPUs are spread unevenly over the NUMA nodes", observed)


def _uneven(summary: str, observed: str) -> Finding:
    return SOCKETS.warned(
        HOST,
        summary,
        expected="the same number of GPUs on each",
        observed=observed,
        remedy=Remedy(
            text="Check whether a GPU is missing. If all GPUs are present, move cards to slots of the other "
            "socket.",
            command="lstopo",
        ),
    )


def _sockets_by_node(facts: MachineFacts) -> dict[int, int] | Unknown:
    """Return the socket of each NUMA node with CPUs.

    This assumes that the firmware numbers the nodes socket by socket, with the same number on each socket.
    """
    if isinstance(facts.numa_nodes, Unknown) or isinstance(facts.cpu.sockets, Unknown):
        return unknown_among(facts.numa_nodes, facts.cpu.sockets)
    nodes = sorted(node.index for node in facts.numa_nodes if node.can_hold_ranks)
    if not nodes or facts.cpu.sockets < 1 or len(nodes) % facts.cpu.sockets:
        return Unknown(
            Reason.NOT_SUPPORTED, f"{len(nodes)} NUMA nodes on {plural(facts.cpu.sockets, 'socket')}"
        )
    return {node: position * facts.cpu.sockets // len(nodes) for position, node in enumerate(nodes)}


@on_gpus(VISIBLE)
def topology_visible(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    if len(gpus) == 1:
        return VISIBLE.skipped(HOST, "the only GPU needs no path to others")
    shown = [_shown(gpu) for gpu in gpus]
    kind = _only_distance(gpus, evidence)
    if kind is not None:
        return VISIBLE.warned(
            HOST,
            "all devices have the same distance over PCIe: the platform hides the PCIe topology",
            expected="near and far devices",
            observed=f"{kind} everywhere",
            remedy=Remedy(
                text="Give NCCL the provider's or the bare machine's topology file (NCCL_TOPO_FILE).",
                command="nvidia-smi topo -m",
            ),
            evidence=gpus[0].evidence,
        )
    if True in shown:
        return VISIBLE.passed(HOST, "link widths or NUMA nodes of GPUs are visible")
    if all(value is False for value in shown):
        return VISIBLE.warned(
            HOST,
            "the machine hides PCIe link widths and NUMA nodes of its GPUs",
            expected="link width and NUMA node of each GPU",
            observed="none of them",
            remedy=Remedy(
                text="Give NCCL the provider's or the bare machine's topology file (NCCL_TOPO_FILE), "
                "and pass NVLink through with a fabric partition."
            ),
            evidence=gpus[0].evidence,
        )
    return VISIBLE.undetermined(HOST, unknown_among(*shown), what="the topology")


def _only_distance(gpus: tuple[Gpu, ...], evidence: Evidence) -> str | None:
    """Return the only distance between devices without NVLink, if such devices should have several distances.

    A single distance is normal on a Grace host (recognised by its few GPUs), and between cards without NVLink
    in the slots of one socket. It is a sign of a hidden topology on a board with NVLink, and for cards on
    several NUMA nodes.
    """
    limits, links = evidence.thresholds, items_of(evidence.facts.links)
    apart = [link for link in links if link.kind != "NVLINK"]
    kinds = {link.kind for link in apart}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    devices = {end for link in apart for end in (link.a, link.b)}
    nodes = {gpu.numa_node for gpu in gpus if isinstance(gpu.numa_node, int)}
    is_split = len(nodes) > 1 and kind in ("PHB", "NODE")
    is_by_design = len(gpus) <= limits.gpus_of_grace_board_maximum.value or (
        len(apart) == len(links) and not is_split
    )
    is_flat = isinstance(kind, str) and kind in ("PHB", "NODE", "SYS") and not is_by_design
    return str(kind) if is_flat and len(devices) >= limits.flat_topology_devices_minimum.value else None


def _shown(gpu: Gpu) -> bool | Unknown:
    """Return True if the GPU's node or link is known, False if the platform reports neither of them."""
    values = (gpu.numa_node, gpu.pcie.width, gpu.pcie.width_max)
    if any(known(value) and value is not None for value in values):
        return True
    hidden = any(isinstance(value, Unknown) and value.reason is Reason.NOT_SUPPORTED for value in values[1:])
    if gpu.numa_node is None and hidden:
        return False
    return unknown_among(*values)


@on_fact(BALANCE, "the NUMA nodes", lambda facts: facts.numa_nodes)
def memory_balance(nodes: tuple[NumaNode, ...], evidence: Evidence) -> Finding:
    own, spread = [node for node in nodes if node.can_hold_ranks], evidence.thresholds.numa_memory_spread
    if len(own) < 2:
        return BALANCE.skipped(HOST, "this machine has one NUMA node")
    sizes: dict[int, int] = {}
    for node in own:
        if isinstance(node.memory_bytes, Unknown):
            what = f"the memory of NUMA node {node.index}"
            return BALANCE.undetermined(HOST, node.memory_bytes, what=what)
        sizes[node.index] = node.memory_bytes
    most = max(sizes.values())
    observed = ", ".join(f"node {index} {gib(size)}" for index, size in sizes.items())
    if min(sizes.values()) >= (1 - spread.value) * most:
        return BALANCE.passed(HOST, "NUMA nodes have about the same memory", observed=observed)
    return BALANCE.warned(
        HOST,
        "a NUMA node has less memory than the others",
        expected=f"within {percent(spread.value)} of {gib(most)}",
        observed=observed,
        remedy=Remedy(
            text="Look for modules that are missing or switched off.",
            command="dmidecode -t memory",
            needs_root=True,
        ),
        evidence=(spread.ref,),
    )
