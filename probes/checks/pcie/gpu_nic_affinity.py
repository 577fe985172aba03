"""Check that every GPU has a NIC nearby.

GPUDirect RDMA runs at full rate below one PCIe switch or host bridge; across sockets it runs at half of this
rate, or NCCL turns it off. On Grace machines every distance is NODE or SYS because NVLink-C2C hides the PCIe
tree; this is not a fault.

If only a matrix of `nvidia-smi topo -m` is known, it names the NICs but neither their state nor their role.
Then a GPU is reported if it has no NIC close by although most GPUs have one, and a machine is reported if all
NICs are on one side.
Source: linux-rdma/perftest#241; NCCL user guide, NCCL_NET_GDR_LEVEL.
"""

import re
from collections.abc import Collection, Iterator

from probes.base.record import Reason, Unknown, first_unknown, items_of, known, only_known
from probes.facts import Gpu, Link, MachineFacts, Nic
from probes.judging.affinity import NEAREST_FIRST
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, evidence_of, fold_names, gpus_of, judge_each, nics_of

JUDGE = Judge(
    check_id="gpu-nic-affinity",
    why="Traffic between a GPU and a distant NIC crosses the CPU sockets: that rank communicates at about "
    "half the rate.",
)

_NO_PATH = Unknown(Reason.NOT_RECORDED, "no distance between this GPU and the training ports")


_HIDDEN = Unknown(
    Reason.NOT_SUPPORTED,
    "every NIC has the distance SYS, as on a Grace superchip or if the PCIe topology is hidden; the matrix "
    "does not name the GPU's model",
)
_SLOTS = Remedy(
    text="Move the NIC or the GPU to slots of one socket; in a virtual machine, ask for the host's PCIe "
    "topology.",
    command="nvidia-smi topo -m",
)


def gpu_nic_affinity(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    if not gpus:
        return
    if not known(evidence.facts.nics) and (nics := _nics_of_matrix(evidence.facts)):
        yield from _by_matrix(evidence, gpus, nics)
        return
    if not (yield from nics_of(JUDGE, evidence)):
        return
    facts, rails = evidence.facts, _rails(evidence.facts)
    if not rails:
        yield JUDGE.skipped(HOST, "no RDMA port is up; see nic-state")
        return
    if isinstance(facts.links, Unknown):
        yield JUDGE.undetermined(HOST, facts.links, what="the distances between GPUs and NICs")
        return
    names = {nic.name for nic in rails}
    nearest = {gpu.index: _nearest(gpu, names, facts.links) for gpu in gpus}
    good = evidence.thresholds.close_link_kinds
    if _on_grace(facts) and not any(kind in good.value for kind in nearest.values()):
        yield JUDGE.skipped(HOST, "on Arm machines such as NVIDIA Grace, PCIe distances may be hidden")
        return
    if all(kind == "SYS" for kind in nearest.values()):
        yield _all_far()
        return

    nodes = {gpu.numa_node for gpu in gpus if known(gpu.numa_node)}
    # If there are fewer rails than GPUs, some GPUs share a rail on their NUMA node by design; if there are
    # fewer rails than NUMA nodes, some nodes have no rail.
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
            remedy=_SLOTS,
            evidence=(good.ref,),
        )

    yield from judge_each(
        JUDGE,
        gpus,
        judge,
        what="the distance between GPU and NIC",
        good="every GPU has a training port as close as the number of ports allows",
    )


def _all_far() -> Finding:
    return JUDGE.warned(
        HOST,
        "every training port is on another socket than every GPU, or the PCIe topology is hidden",
        expected="PIX, PXB or PHB for each GPU",
        observed="SYS everywhere",
        remedy=Remedy(
            text="In a virtual machine, pass the provider's topology file to NCCL (NCCL_TOPO_FILE); "
            "otherwise check slots and BIOS.",
            command="nvidia-smi topo -m",
        ),
    )


def _nics_of_matrix(facts: MachineFacts) -> dict[str, Link]:
    """Return the NICs that only distances mention, each with one of its links."""
    return {
        end: link
        for link in items_of(facts.links)
        for end in (link.a, link.b)
        if not end.startswith("GPU") and (link.a.startswith("GPU") or link.b.startswith("GPU"))
    }


def _by_matrix(evidence: Evidence, gpus: tuple[Gpu, ...], nics: dict[str, Link]) -> Iterator[Finding]:
    """Judge by the distances only.

    NICs that are close to a GPU are assumed to be training ports; if no NIC is close, all NICs are.
    """
    links, good = items_of(evidence.facts.links), evidence.thresholds.close_link_kinds
    near = {name for name in nics if any(link.kind in good.value for link in _links_to_gpus(name, links))}
    nearest = {gpu.index: _nearest(gpu, near or nics, links) for gpu in gpus}
    kinds = list(nearest.values())
    if all(kind == "SYS" for kind in kinds):
        grace = evidence.thresholds.gpus_of_grace_board_maximum
        is_grace = len(gpus) <= grace.value or _on_grace(evidence.facts)
        far = JUDGE.undetermined(
            HOST, _HIDDEN, what="the distance between GPU and NIC", evidence=(grace.ref,)
        )
        yield far if is_grace else _all_far()
        return
    without = [gpu for gpu in gpus if nearest[gpu.index] == "SYS"]
    # These GPUs reach every NIC only through the other socket. A single adapter cannot be on both sides.
    if len(without) > 1 and len(without) * 2 >= len(gpus) and _adapters(near or nics, links) > 1:
        yield JUDGE.warned(
            HOST,
            "all NICs are on one side of the machine, and the GPUs on the other side have no NIC close by",
            expected="a NIC on the socket of each GPU",
            observed=f"{fold_names(sorted(near or nics))} are SYS for "
            + fold_names([f"GPU{gpu.index}" for gpu in without]),
            remedy=_SLOTS,
            evidence=evidence_of(nics.values())[:1],
        )
        gpus = tuple(gpu for gpu in gpus if gpu not in without)
    is_usual = 2 * sum(kind in good.value for kind in kinds) > len(kinds)

    def judge(gpu: Gpu) -> Judged:
        kind = nearest[gpu.index]
        if isinstance(kind, Unknown) or kind in good.value or not is_usual:
            return kind
        return JUDGE.warned(
            f"GPU{gpu.index}",
            "no NIC is close to this GPU, although most GPUs have one",
            expected=" or ".join(good.value),
            observed=f"{kind} at best",
            remedy=_SLOTS,
            evidence=(good.ref,),
        )

    what = "the distance between GPU and NIC"
    yield from judge_each(JUDGE, gpus, judge, what=what, good="no GPU is farther from a NIC than most GPUs")


def _links_to_gpus(nic: str, links: tuple[Link, ...]) -> list[Link]:
    return [link for link in links if nic in (link.a, link.b) and "GPU" in (link.a[:3], link.b[:3])]


def _adapters(nics: Collection[str], links: tuple[Link, ...]) -> int:
    """Return the minimum number of adapters of these NICs: two ports of one adapter have the distance PIX.

    If the matrix has no rows of NICs, every two NICs may belong to one adapter.
    """
    between = [link for link in links if link.a in nics and link.b in nics]
    if not between:
        return (len(nics) + 1) // 2
    second_ports = {max(link.a, link.b) for link in between if link.kind == "PIX"}
    return len(nics) - len(second_ports)


def _rails(facts: MachineFacts) -> tuple[Nic, ...]:
    """Return the training ports that are up.

    All ports count if the sources do not report their states (lspci, templates of clouds).
    """
    nics = items_of(facts.nics)
    return training_rails(facts).active if any(known(nic.state) for nic in nics) else nics


def _on_grace(facts: MachineFacts) -> bool:
    """Return whether the CPU may be an NVIDIA Grace: any Arm processor, or the CPU beside a superchip's GPU.

    A pasted matrix does not name the CPU.
    """
    names = only_known(gpu.name for gpu in items_of(facts.gpus))
    return facts.cpu.architecture == "aarch64" or any(re.search(r"\bG[BH]\d", name) for name in names)


def _nearest(gpu: Gpu, names: Collection[str], links: tuple[Link, ...]) -> str | Unknown:
    kinds = [
        link.kind
        for link in links
        if f"GPU{gpu.index}" in (link.a, link.b) and (link.a in names or link.b in names)
    ]
    nearest = next((kind for kind in NEAREST_FIRST if kind in kinds), None)
    return nearest or first_unknown(*kinds) or _NO_PATH
