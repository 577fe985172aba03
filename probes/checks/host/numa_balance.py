"""Check that the GPUs are spread over the sockets, and that the topology is visible to NCCL.

All GPUs on one of two sockets share one socket's memory bandwidth and PCIe roots; an uneven spread often
means that a GPU is missing. A virtual machine that hides link speeds and nodes leaves NCCL without paths.
Source: NVIDIA/nvbandwidth, affinity; NVIDIA/nccl, src/graph/xml.cc (defaults of NCCL without sysfs).
"""

from __future__ import annotations

from collections import Counter

from probes.base.record import NOT_RECORDED, Reason, Unknown, known
from probes.facts import Gpu, MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

SOCKETS = Judge(
    check_id="gpu-sockets", why="GPUs that crowd one socket share its memory bandwidth while the other idles."
)
VISIBLE = Judge(
    check_id="topology-visible",
    why="Without distances and speeds NCCL takes slow paths and may refuse peer-to-peer.",
)


@on_gpus(SOCKETS)
def gpu_sockets(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    fewest = evidence.thresholds.gpus_on_two_sockets_minimum
    if len(gpus) < fewest.value:
        return SOCKETS.skipped(HOST, f"fewer than {fewest.value:.0f} GPUs", evidence=(fewest.ref,))
    nodes = [gpu.numa_node for gpu in gpus]
    unread = next((node for node in nodes if isinstance(node, Unknown)), None)
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
    if isinstance(facts.numa_nodes, Unknown):
        return facts.numa_nodes
    if isinstance(facts.cpu.sockets, Unknown):
        return facts.cpu.sockets
    nodes = sorted(
        node.index for node in facts.numa_nodes if node.cpus != "" and node.is_gpu_memory is not True
    )
    if not nodes or facts.cpu.sockets < 1 or len(nodes) % facts.cpu.sockets:
        return Unknown(Reason.NOT_SUPPORTED, f"{len(nodes)} NUMA nodes on {facts.cpu.sockets} sockets")
    return {node: position * facts.cpu.sockets // len(nodes) for position, node in enumerate(nodes)}


@on_gpus(VISIBLE)
def topology_visible(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    if len(gpus) == 1:
        return VISIBLE.skipped(HOST, "one GPU needs no path to another")
    shown = [_shown(gpu) for gpu in gpus]
    if any(value is True for value in shown):
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
    return VISIBLE.undetermined(
        HOST,
        next((value for value in shown if isinstance(value, Unknown)), NOT_RECORDED),
        what="the topology",
    )


def _shown(gpu: Gpu) -> bool | Unknown:
    """Return True if a node or a link is known, False if the platform reports that it has neither."""
    values = (gpu.numa_node, gpu.pcie.width, gpu.pcie.width_max)
    if any(known(value) and value is not None for value in values):
        return True
    hidden = any(isinstance(value, Unknown) and value.reason is Reason.NOT_SUPPORTED for value in values[1:])
    if gpu.numa_node is None and hidden:
        return False
    return next((value for value in values if isinstance(value, Unknown)), NOT_RECORDED)
