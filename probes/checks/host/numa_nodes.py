"""Check that the NUMA nodes and the PCIe topology are visible, and that GPUs and memory are spread evenly.

Without the NUMA node of each GPU and NIC neither NCCL nor a launcher can bind ranks near their GPU. Boards
with eight GPUs behind NVSwitches are built into servers with two sockets. If all eight report one NUMA node,
the firmware interleaves the memory of the sockets or the hypervisor hides the second node. All GPUs on one of
two sockets share one socket's memory bandwidth and PCIe roots; an uneven spread often means that a GPU is
missing. A virtual machine that hides link speeds and nodes leaves NCCL without paths. Source:
NVIDIA/nvbandwidth, affinity (copies across sockets were measured at a third of the rate); NVIDIA HGX
reference architecture; NCCL user guide, NUMA binding; NVIDIA/nccl, src/graph/xml.cc (defaults of NCCL without
sysfs); Linux EDAC documentation (memory).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from probes.base.record import Reason, Unknown, first_unknown, items_of, known
from probes.base.units import gib, percent
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
    why="Ranks, their memory and their NIC cannot be kept on one socket, so that half of all copies cross "
    "to the other.",
)
SOCKETS = Judge(
    check_id="gpu-sockets", why="GPUs that crowd one socket share its memory bandwidth while the other idles."
)
VISIBLE = Judge(
    check_id="topology-visible",
    why="Without distances and speeds NCCL takes slow paths and may refuse peer-to-peer.",
)
BALANCE = Judge(
    check_id="memory-balance",
    why="A node with less memory has lost a module: its channels are slower, and its ranks run short first.",
)


@on_gpus(KNOWN)
def numa(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    count = _node_count(evidence.facts)
    if isinstance(count, Unknown):
        yield KNOWN.undetermined(HOST, count, what="the NUMA nodes")
    elif count < 2:
        yield KNOWN.skipped(HOST, "this machine has one NUMA node")
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
        "the platform states no NUMA node for this device",
        expected="a NUMA node",
        observed="-1 (none)",
        remedy=Remedy(
            text="Look at the BIOS settings of NUMA and PCIe; in a virtual machine ask for the host's "
            "topology.",
            command="lstopo",
        ),
    )


def _node_count(facts: MachineFacts) -> int | Unknown:
    """Return the number of nodes with CPUs. Memory of GPUs and behind CXL cannot hold a rank."""
    nodes = items_of(facts.numa_nodes)
    return sum(map(_can_hold_ranks, nodes)) if nodes else facts.cpu.sockets


def _can_hold_ranks(node: NumaNode) -> bool:
    return node.cpus != "" and node.is_gpu_memory is not True


@on_gpus(HIDDEN)
def numa_hidden(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    nodes, refs = {gpu.numa_node for gpu in gpus}, evidence_of(gpus)
    unread = first_unknown(*nodes)
    if not _is_switched(gpus, evidence):
        return HIDDEN.skipped(HOST, "this is no board with eight GPUs behind NVSwitches")
    if unread is not None:
        return HIDDEN.undetermined(HOST, unread, what="the NUMA nodes of the GPUs", evidence=refs)
    if nodes == {None}:
        return HIDDEN.skipped(HOST, "the platform states no NUMA node at all", evidence=refs)
    if len(nodes) > 1:
        return HIDDEN.passed(
            HOST, "the GPUs are on several NUMA nodes", observed=f"{len(nodes)} nodes", evidence=refs
        )
    return HIDDEN.warned(
        HOST,
        "all GPUs report one NUMA node on a server with two sockets",
        expected="at least two NUMA nodes",
        observed=f"node {next(iter(nodes))} for all {len(gpus)} GPUs",
        remedy=Remedy(
            text="Turn node interleaving off and NUMA on in the BIOS; a virtual machine needs the nodes of "
            "its host.",
            command="numactl -H",
        ),
        evidence=refs,
    )


def _is_switched(gpus: tuple[Gpu, ...], evidence: Evidence) -> bool:
    """Return whether this is a whole board, on which every pair has as many NVLinks as only switches give."""
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
        return SOCKETS.undetermined(
            HOST, unread or Unknown(Reason.NOT_SUPPORTED, "no NUMA node stated"), what="the NUMA nodes"
        )
    socket_of = _sockets_by_node(evidence.facts)
    if isinstance(socket_of, Unknown):
        return SOCKETS.undetermined(HOST, socket_of, what="the sockets of the NUMA nodes")
    if len(set(socket_of.values())) < 2:
        return SOCKETS.skipped(HOST, "this machine has one socket")
    counts = Counter(socket_of.get(node, node) for node in nodes if isinstance(node, int))
    observed = ", ".join(f"{count} on socket {socket}" for socket, count in sorted(counts.items()))
    is_lopsided = len(counts) == 1
    if is_lopsided or len(set(counts.values())) > 1:
        return SOCKETS.warned(
            HOST,
            "all GPUs are on one socket" if is_lopsided else "the GPUs are spread unevenly over the sockets",
            expected="the same number on each",
            observed=observed,
            remedy=Remedy(
                text="Check whether a GPU is missing; if none is, move cards to slots of the other socket.",
                command="lstopo",
            ),
        )
    return SOCKETS.passed(HOST, "the GPUs are spread evenly", observed=observed)


def _sockets_by_node(facts: MachineFacts) -> dict[int, int] | Unknown:
    """Return the socket of each NUMA node with CPUs.

    Firmware numbers the nodes socket by socket, with the same number of nodes each.
    """
    if isinstance(facts.numa_nodes, Unknown) or isinstance(facts.cpu.sockets, Unknown):
        return unknown_among(facts.numa_nodes, facts.cpu.sockets)
    nodes = sorted(node.index for node in facts.numa_nodes if _can_hold_ranks(node))
    if not nodes or facts.cpu.sockets < 1 or len(nodes) % facts.cpu.sockets:
        return Unknown(Reason.NOT_SUPPORTED, f"{len(nodes)} NUMA nodes on {facts.cpu.sockets} sockets")
    return {node: position * facts.cpu.sockets // len(nodes) for position, node in enumerate(nodes)}


@on_gpus(VISIBLE)
def topology_visible(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    if len(gpus) == 1:
        return VISIBLE.skipped(HOST, "one GPU needs no path to another")
    shown = [_shown(gpu) for gpu in gpus]
    if True in shown:
        return VISIBLE.passed(HOST, "link speeds or NUMA nodes of the GPUs are visible")
    if all(value is False for value in shown):
        return VISIBLE.warned(
            HOST,
            "the machine hides PCIe link speeds and NUMA nodes of its GPUs",
            expected="link speed, width and NUMA node of each GPU",
            observed="none of them",
            remedy=Remedy(
                text="Give NCCL the provider's or the bare machine's topology file (NCCL_TOPO_FILE), "
                "and pass NVLink through with a fabric partition."
            ),
            evidence=gpus[0].evidence,
        )
    return VISIBLE.undetermined(HOST, unknown_among(*shown), what="the topology")


def _shown(gpu: Gpu) -> bool | Unknown:
    """Return True if a node or a link is known, False if the platform reports that it has neither."""
    values = (gpu.numa_node, gpu.pcie.width, gpu.pcie.width_max)
    if any(known(value) and value is not None for value in values):
        return True
    hidden = any(isinstance(value, Unknown) and value.reason is Reason.NOT_SUPPORTED for value in values[1:])
    if gpu.numa_node is None and hidden:
        return False
    return unknown_among(*values)


@on_fact(BALANCE, "the NUMA nodes", lambda facts: facts.numa_nodes)
def memory_balance(nodes: tuple[NumaNode, ...], evidence: Evidence) -> Finding:
    own, spread = list(filter(_can_hold_ranks, nodes)), evidence.thresholds.numa_memory_spread
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
        return BALANCE.passed(HOST, "NUMA nodes have equal memory", observed=observed)
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
