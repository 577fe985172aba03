"""Check that every GPU has a NIC nearby.

GPUDirect RDMA runs at full rate below one PCIe switch or host bridge; across sockets it runs at half or NCCL
turns it off. On Grace machines every distance is NODE or SYS because NVLink-C2C hides the PCIe tree; this is
no fault. Source: linux-rdma/perftest#241; NCCL user guide, NCCL_NET_GDR_LEVEL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.base.record import Reason, Unknown, first_unknown, items_of, known, only_known
from probes.facts import Gpu, Link, MachineFacts, Nic
from probes.judging.affinity import NEAREST_FIRST
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, gpus_of, judge_each, nics_of

JUDGE = Judge(
    check_id="gpu-nic-affinity",
    why="Traffic between a GPU and a distant NIC crosses the CPU sockets: that rank communicates at about "
    "half the rate.",
)

_NO_PATH = Unknown(Reason.NOT_RECORDED, "no distance between this GPU and the training ports")


def gpu_nic_affinity(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    if not gpus or not (yield from nics_of(JUDGE, evidence)):
        return
    facts, rails = evidence.facts, _rails(evidence.facts)
    if not rails:
        yield JUDGE.skipped(HOST, "no RDMA port is up, see nic-state")
        return
    if isinstance(facts.links, Unknown):
        yield JUDGE.undetermined(HOST, facts.links, what="the distances between GPUs and NICs")
        return
    nearest = {gpu.index: _nearest(gpu, rails, facts.links) for gpu in gpus}
    good = evidence.thresholds.close_link_kinds
    if _on_grace(facts) and not any(kind in good.value for kind in nearest.values()):
        yield JUDGE.skipped(HOST, "on this architecture NVLink-C2C hides the PCIe distances")
        return
    if all(kind == "SYS" for kind in nearest.values()):
        yield JUDGE.warned(
            HOST,
            "every training port is on another socket than every GPU, or the PCIe topology is hidden",
            expected="PIX, PXB or PHB for each GPU",
            observed="SYS everywhere",
            remedy=Remedy(
                text="In a virtual machine give NCCL the provider's topology file (NCCL_TOPO_FILE); else "
                "look at slots and BIOS.",
                command="nvidia-smi topo -m",
            ),
        )
        return

    nodes = {gpu.numa_node for gpu in gpus if known(gpu.numa_node)}
    # Fewer rails than GPUs means that some GPUs share a rail on their NUMA node, by design; fewer rails than
    # NUMA nodes, that some nodes have none.
    shared = {"NODE": len(rails) < len(gpus), "SYS": len(rails) < len(nodes)}

    def judge(gpu: Gpu) -> Judged:
        kind = nearest[gpu.index]
        if isinstance(kind, Unknown) or kind in good.value or shared.get(kind):
            return kind
        return JUDGE.warned(
            f"GPU{gpu.index}",
            "no training port is close to this GPU",
            expected=" or ".join(good.value),
            observed=f"{kind} at best",
            remedy=Remedy(
                text="Move the NIC or the GPU to slots of one socket; in a virtual machine, ask for the "
                "host's PCIe topology.",
                command="nvidia-smi topo -m",
            ),
            evidence=(good.ref,),
        )

    yield from judge_each(
        JUDGE,
        gpus,
        judge,
        what="the distance between GPU and NIC",
        good="every GPU has a training port close by",
    )


def _rails(facts: MachineFacts) -> tuple[Nic, ...]:
    """Return the training ports that are up.

    All ports count if no text states their role (lspci, templates of clouds).
    """
    nics = items_of(facts.nics)
    return training_rails(facts).active if any(known(nic.state) for nic in nics) else nics


def _on_grace(facts: MachineFacts) -> bool:
    """Return whether the CPU is a Grace.

    The architecture or a GPU of a superchip shows it: a pasted matrix does not name the CPU.
    """
    names = only_known(gpu.name for gpu in items_of(facts.gpus))
    return facts.cpu.architecture == "aarch64" or any(re.search(r"\bG[BH]\d", name) for name in names)


def _nearest(gpu: Gpu, rails: tuple[Nic, ...], links: tuple[Link, ...]) -> str | Unknown:
    names = {nic.name for nic in rails}
    kinds = [
        link.kind for link in links if f"GPU{gpu.index}" in (link.a, link.b) and names & {link.a, link.b}
    ]
    nearest = next((kind for kind in NEAREST_FIRST if kind in kinds), None)
    return nearest or first_unknown(*kinds) or _NO_PATH
