"""Check that a two-socket GPU server shows both of its NUMA nodes.

Boards with eight GPUs behind NVSwitches are built into servers with two sockets. If all eight report one NUMA
node, the firmware interleaves the memory of the sockets or the hypervisor hides the second node. Source:
NVIDIA HGX reference architecture; NCCL user guide, NUMA binding.
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.facts import Gpu, MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

JUDGE = Judge(
    check_id="numa-hidden",
    why="Ranks, their memory and their NIC cannot be kept on one socket, so that half of all copies cross "
    "to the other.",
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    nodes = {gpu.numa_node for gpu in gpus}
    refs = tuple(dict.fromkeys(ref for gpu in gpus for ref in gpu.evidence))
    unread = next((node for node in nodes if isinstance(node, Unknown)), None)
    limits = evidence.thresholds
    is_whole = len(gpus) >= limits.gpus_of_switched_board.value
    if not is_whole or not _is_switched(evidence.facts, gpus, limits.links_of_switched_pair_minimum.value):
        return JUDGE.skipped(HOST, "this is no board with eight GPUs behind NVSwitches")
    if unread is not None:
        return JUDGE.undetermined(HOST, unread, what="the NUMA nodes of the GPUs", evidence=refs)
    if nodes == {None}:
        return JUDGE.skipped(HOST, "the platform states no NUMA node at all", evidence=refs)
    if len(nodes) > 1:
        return JUDGE.passed(
            HOST, "the GPUs are on several NUMA nodes", observed=f"{len(nodes)} nodes", evidence=refs
        )
    return JUDGE.warned(
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


def _is_switched(facts: MachineFacts, gpus: tuple[Gpu, ...], fewest_links: float) -> bool:
    """Return whether every pair of GPUs has as many NVLinks as only switches give."""
    links = facts.links if known(facts.links) else ()
    pairs = [link for link in links if link.a.startswith("GPU") and link.b.startswith("GPU")]
    return len(pairs) >= len(gpus) - 1 and all(
        link.kind == "NVLINK" and (link.nvlink_count or 0) >= fewest_links for link in pairs
    )
