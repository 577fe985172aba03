"""Check that the host's memory is spread evenly over its NUMA nodes.

Source: imbue-ai/cluster-health (no swap), facebookresearch/gcm (free blocks), mej/nhc (corrected errors),
Linux EDAC documentation; the figures are data rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.base.units import gib, percent
from probes.facts import NumaNode
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

BALANCE = Judge(
    check_id="memory-balance",
    why="A node with less memory has lost a module: its channels are slower, and its ranks run short first.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    nodes, spread = evidence.facts.numa_nodes, evidence.thresholds.numa_memory_spread
    if isinstance(nodes, Unknown):
        yield BALANCE.undetermined(HOST, nodes, what="the NUMA nodes")
        return
    own = [node for node in nodes if node.is_gpu_memory is not True and node.cpus != ""]
    if len(own) < 2:
        yield BALANCE.skipped(HOST, "this machine has one NUMA node")
        return
    sizes: list[tuple[NumaNode, int]] = []
    for node in own:
        if isinstance(node.memory_bytes, Unknown):
            yield BALANCE.undetermined(HOST, node.memory_bytes, what=f"the memory of NUMA node {node.index}")
            return
        sizes.append((node, node.memory_bytes))
    most = max(size for _, size in sizes)
    observed = ", ".join(f"node {node.index} {gib(size)}" for node, size in sizes)
    if all(size >= (1 - spread.value) * most for _, size in sizes):
        yield BALANCE.passed(HOST, "NUMA nodes have equal memory", observed=observed)
    else:
        yield BALANCE.warned(
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
