"""Check that the platform reports the NUMA node of each GPU and NIC.

Without it neither NCCL nor a launcher can bind ranks near their GPU. Source: NVIDIA/nvbandwidth, affinity;
copies across sockets were measured at a third of the rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_gpus, subject_name

JUDGE = Judge(
    check_id="numa",
    why="Ranks cannot be bound near their GPU and NIC, and copies across sockets take up to three times as "
    "long.",
)


@on_gpus(JUDGE)
def numa(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    count = _node_count(evidence.facts)
    if isinstance(count, Unknown):
        yield JUDGE.undetermined(HOST, count, what="the NUMA nodes")
    elif count < 2:
        yield JUDGE.skipped(HOST, "this machine has one NUMA node")
    else:
        yield from judge_each(
            JUDGE, gpus, _judge, what="the NUMA node", good="the NUMA node of every GPU is known"
        )
        rails = training_rails(evidence.facts).active
        yield from judge_each(
            JUDGE, rails, _judge, what="the NUMA node", good="the NUMA node of every training port is known"
        )


def _judge(device: Gpu | Nic) -> Judged:
    if isinstance(device.numa_node, Unknown):
        return device.numa_node
    if device.numa_node is not None:
        return f"node {device.numa_node}"
    return JUDGE.warned(
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
    if known(facts.numa_nodes) and facts.numa_nodes:
        with_cpus = [node for node in facts.numa_nodes if node.cpus != "" and node.is_gpu_memory is not True]
        return len(with_cpus)
    return facts.cpu.sockets
