"""Check that no GPU lacks NVLinks to its peers, and that GPUs access each other's memory directly.

With NVSwitches, the link count of a pair is the smaller count of its two GPUs. In a mesh or a hybrid cube the
pairs may differ, but the sum over all pairs of one GPU is the same for each GPU; a smaller sum means a dead
link. On machines with PCIe only, on machines with bridges and on AMD machines, the sums differ by design and
are not judged. A source that reads only the PCI bus reports nothing about NVLinks. A bridge between cards on
two NUMA nodes is a problem: its GPUs share neither host memory nor NIC.

If the driver refuses direct access, NCCL copies through host memory. Between GPUs joined by NVLink, a refusal
is a fault; over PCIe, it is a property of the platform (a virtual machine, ACS, a GeForce driver) that costs
speed. Atomic operations between GPUs are not needed. Source: NVIDIA HGX and DGX-1 system architecture; NCCL
user guide, topology and troubleshooting (GPU direct peer to peer); `nvidia-smi topo -m` and `-p2p` legends;
NVIDIA/nccl-tests#117 on RTX 40.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from probes.base.grouping import grouped
from probes.base.record import EvidenceRef, Reason, Unknown, first_unknown, items_of, known
from probes.base.units import plural
from probes.base.versions import at_least
from probes.facts import Gpu, Link, PeerAccess
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, evidence_of, fold_names, on_gpus

MESH = Judge(
    check_id="nvlink-mesh",
    why="A ring passes every GPU: the pair with the fewest links sets the speed for all, and a pair "
    "without links uses PCIe.",
)

_WHOLE_BOARDS = frozenset({8, 16})
"""Numbers of GPUs that are a whole board. Other numbers may be the part of a hybrid cube in a container."""
_MOST_BRIDGED = 4
"""Maximum number of GPUs that one bridge joins (H200 NVL)."""
_MORE_THAN_A_CUBE = 4
"""Number of links that no pair in a hybrid cube of P100 or V100 has."""

_RESET = Remedy(
    text="Check the Fabric Manager and the NVLink state, end all jobs and reset the GPUs; a link that "
    "stays down "
    "needs service.",
    command="nvidia-smi nvlink -s",
)
_BRIDGED = Remedy(
    text="Move the two cards to slots of one socket, so that the pair shares its host memory and its NIC.",
    command="nvidia-smi topo -m",
)
ACCESS = Judge(
    check_id="peer-access",
    why="Without peer access NCCL copies every block through host memory, at a fraction of the speed.",
)
GEFORCE = Judge(
    check_id="peer-access-geforce",
    why="These drivers report that peer access works although it does not: NCCL hangs, or the data is wrong.",
)

_NOT_NEEDED = frozenset({"atomics"})
_ONLY_NVLINK = frozenset({"nvlink"})
_MEANING = {
    "CNS": "the chipset does not support it",
    "GNS": "the driver does not support it for these GPUs",
    "TNS": "the topology does not support it",
    "NS": "not supported",
    "DR": "disabled in the driver's settings",
    "U": "the driver reports it as unknown",
}
_AFFECTED = "geforce rtx 40"
_PLATFORM = Remedy(
    text="On bare metal, turn off ACS and the translation by the IOMMU. Give a virtual machine GPUs below "
    "one switch. If the platform has no peer access (GeForce, clouds), plan without it: NCCL then uses "
    "shared memory, which must be large."
)
_FAULT = Remedy(
    text="Check that the fabric is set up and that ACS is off, reset the GPUs, and look at the kernel log."
)


@on_gpus(MESH)
def nvlink_mesh(gpus: tuple[Gpu, ...], evidence: Evidence) -> Findings:
    if len(gpus) < 2:
        return MESH.skipped(HOST, "one GPU has no peer")
    links = evidence.facts.links
    if isinstance(links, Unknown):
        return MESH.undetermined(HOST, links, what="the links between the GPUs")
    hung = {f"GPU{gpu.index}" for gpu in items_of(evidence.facts.gpus)} - {f"GPU{gpu.index}" for gpu in gpus}
    pairs = {
        frozenset((link.a, link.b)): link
        for link in links
        if _is_between_gpus(link) and not {link.a, link.b} & hung
    }
    unread = first_unknown(*(link.kind for link in pairs.values()))
    if not pairs:
        unread = Unknown(Reason.NOT_RECORDED, "no pair of GPUs is known")
    if unread is not None:
        return MESH.undetermined(HOST, unread, what="the links between the GPUs")
    return _judge_mesh(evidence, gpus, pairs)


def _judge_mesh(
    evidence: Evidence, gpus: Sequence[Gpu], pairs: dict[frozenset[str], Link]
) -> Iterator[Finding]:
    names = [f"GPU{gpu.index}" for gpu in gpus]
    refs = evidence_of(pairs.values())
    if not any(link.sees_nvlink or link.kind == "NVLINK" for link in pairs.values()):
        yield MESH.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "only the PCI bus was read"), what="the NVLinks", evidence=refs
        )
        return
    if any(known(gpu.name) and gpu.name.startswith("AMD ") for gpu in gpus):
        yield MESH.skipped(HOST, "the links between AMD's GPUs differ by design", evidence=refs)
        return
    if any(link.kind == "NVLINK" and link.nvlink_count is None for link in pairs.values()):
        yield MESH.skipped(HOST, "the number of links between two GPUs is unknown", evidence=refs)
        return
    sums = {name: total for name in names if (total := _sum(name, names, pairs)) is not None}
    if len(sums) < 2:
        yield MESH.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "the matrix was cut"), what="some pairs of GPUs", evidence=refs
        )
        return
    # GPUs without any NVLink are reported first; if there are none, different sums mean dead links.
    bare = _left_out(sums) or _unlinked(evidence, gpus, pairs)
    if bare:
        yield MESH.failed(
            fold_names(bare),
            "some GPUs reach peers over PCIe instead of NVLink",
            expected="NVLink between all pairs",
            observed=_kinds(pairs),
            remedy=_RESET,
            evidence=refs,
        )
    elif not any(sums.values()):
        yield MESH.skipped(HOST, "no two GPUs are joined by NVLink", evidence=refs)
    elif apart := _bridges_across_nodes(evidence, gpus, pairs):
        yield MESH.warned(
            fold_names(sorted({end for link in apart for end in (link.a, link.b)})),
            "an NVLink bridge joins GPUs of two NUMA nodes",
            expected="both GPUs of a bridge on one NUMA node",
            observed=", ".join(f"{link.a} and {link.b}" for link in apart),
            remedy=_BRIDGED,
            evidence=evidence_of(apart),
        )
    elif 0 in sums.values() or len(set(sums.values())) == 1:
        is_even = len(set(sums.values())) == 1
        yield MESH.passed(
            fold_names(list(sums)),
            "every GPU has the same number of NVLinks" if is_even else "bridges join some of the GPUs",
            observed=_kinds(pairs),
            evidence=refs,
        )
    elif len(gpus) in _WHOLE_BOARDS or _is_full_mesh(pairs):
        yield _uneven(sums, pairs, refs)
    else:
        yield MESH.skipped(
            HOST, "these may be some GPUs of a hybrid cube, in which pairs differ by design", evidence=refs
        )


def _uneven(
    sums: dict[str, int], pairs: dict[frozenset[str], Link], refs: tuple[EvidenceRef, ...]
) -> Finding:
    """Return the FAIL for GPUs that have lost links.

    A dead link at one GPU also lowers the sums of its peers, but by less than the sum of the GPU itself.
    """
    least, most = min(sums.values()), max(sums.values())
    return MESH.failed(
        fold_names([name for name, total in sums.items() if total == least]),
        "fewer NVLinks than the other GPUs have",
        expected=f"{most} in total to the other GPUs",
        observed=f"{least}; pairs: {_kinds(pairs)}",
        remedy=_RESET,
        evidence=refs,
    )


def _is_full_mesh(pairs: dict[frozenset[str], Link]) -> bool:
    """Return whether every pair has an NVLink, and some pair has more than any pair in a hybrid cube."""
    counts = [link.nvlink_count or 0 for link in pairs.values()]
    return min(counts) > 0 and max(counts) >= _MORE_THAN_A_CUBE


def _sum(name: str, names: Sequence[str], pairs: dict[frozenset[str], Link]) -> int | None:
    """Return the number of NVLinks of one GPU to all its peers; None if one of its pairs is unknown."""
    links = [pairs.get(frozenset((name, other))) for other in names if other != name]
    counts = [link.nvlink_count or 0 for link in links if link is not None]
    return sum(counts) if len(counts) == len(links) else None


def _left_out(sums: dict[str, int]) -> list[str]:
    """Return the GPUs without any NVLink, if more GPUs have NVLinks than one bridge can join."""
    bare = sorted(name for name, total in sums.items() if total == 0)
    return bare if len(sums) - len(bare) > _MOST_BRIDGED else []


def _unlinked(evidence: Evidence, gpus: Sequence[Gpu], pairs: dict[frozenset[str], Link]) -> list[str]:
    """Return GPUs that lack NVLink to a peer although their model has switches or a full mesh."""
    meshed = {f"GPU{gpu.index}" for gpu in gpus if _is_meshed(gpu, evidence) and gpu.mig_enabled is not True}
    bare = (
        pair for pair, link in pairs.items() if pair <= meshed and link.kind != "NVLINK" and link.sees_nvlink
    )
    return sorted(set[str]().union(*bare))


def _is_meshed(gpu: Gpu, evidence: Evidence) -> bool:
    """Return whether GPUs of this model have switches or a full mesh.

    GPUs with six links (V100) form a cube in which some pairs have no NVLink by design.
    """
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    return row is not None and row.nvlink_count >= 8 and not row.nvlink_bridge


def _bridges_across_nodes(
    evidence: Evidence, gpus: Sequence[Gpu], pairs: dict[frozenset[str], Link]
) -> list[Link]:
    """Return the bridges whose GPUs are on NUMA nodes of different sockets.

    Only bridges of two cards are judged; a GPU with a second peer belongs to a larger bridge or to a board.
    Two GPUs of an unknown model are not judged, because they may be a part of a board. The NUMA nodes of one
    socket are assumed to have consecutive numbers; if the number of sockets is unknown, each node counts as
    one socket.
    """
    bridges = [link for link in pairs.values() if link.kind == "NVLINK"]
    peers = Counter(end for link in bridges for end in (link.a, link.b))
    row = evidence.catalogue.checked_gpu(gpus[0].name) if known(gpus[0].name) else None
    is_bridged = row.nvlink_bridge if row is not None else len(gpus) > 2 and bool(pairs)
    if not is_bridged or not peers or max(peers.values()) > 1:
        return []
    sockets, numa_nodes = evidence.facts.cpu.sockets, evidence.facts.numa_nodes
    per_socket = len(numa_nodes) // sockets if known(sockets) and sockets and known(numa_nodes) else 1
    nodes = {
        f"GPU{gpu.index}": gpu.numa_node // max(per_socket, 1)
        for gpu in gpus
        if isinstance(gpu.numa_node, int)
    }
    both = [(link, nodes.get(link.a), nodes.get(link.b)) for link in bridges]
    return [link for link, a, b in both if isinstance(a, int) and isinstance(b, int) and a != b]


def _kinds(pairs: dict[frozenset[str], Link]) -> str:
    """Return the kinds of links between pairs, the most frequent first: `NV18 x 28`."""
    counts = Counter(
        f"NV{link.nvlink_count}" if link.kind == "NVLINK" else str(link.kind) for link in pairs.values()
    )
    return ", ".join(f"{kind} x {count}" for kind, count in counts.most_common(6))


@on_gpus(ACCESS)
def peer_access(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    access = evidence.facts.peer_access
    if isinstance(access, Unknown) or not access:
        yield from _without_table(evidence, gpus, access)
        return
    joined = _joined(evidence, gpus)
    wanted = [
        pair
        for pair in access
        if pair.capability not in _NOT_NEEDED | _ONLY_NVLINK or _is_joined(pair, joined)
    ]
    refused = grouped(
        ((pair.status, _is_joined(pair, joined)), pair)
        for pair in wanted
        if pair.status != "OK" and pair.capability not in _NOT_NEEDED
    )
    for (status, is_fault), pairs in refused.items():
        yield ACCESS.problem(
            fold_names(sorted({pair.a for pair in pairs} | {pair.b for pair in pairs})),
            "GPUs joined by NVLink do not reach each other"
            if is_fault
            else "GPUs do not reach each other's memory",
            fails=is_fault,
            expected="OK",
            observed=f"{status} for {plural(len({frozenset((pair.a, pair.b)) for pair in pairs}), 'pair')}: "
            + _MEANING.get(status, "a status that is not in the legend"),
            remedy=_FAULT if is_fault else _PLATFORM,
            evidence=evidence_of(pairs),
        )
    if not refused and wanted:
        names = fold_names(sorted({pair.a for pair in wanted} | {pair.b for pair in wanted}))
        yield ACCESS.passed(
            names, "the GPUs reach each other's memory", observed="OK", evidence=evidence_of(wanted)
        )
    elif not refused:
        yield ACCESS.skipped(
            HOST, "access was recorded only over NVLink or for atomics, and GPUs on PCIe need neither"
        )


@on_gpus(GEFORCE)
def peer_access_geforce(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    affected = [gpu for gpu in gpus if known(gpu.name) and _AFFECTED in gpu.name.lower()]
    unread = first_unknown(*(gpu.name for gpu in gpus))
    if unread is not None and len(affected) < 2:
        return GEFORCE.undetermined(HOST, unread, what="the GPU's model")
    if len(affected) < 2:
        return GEFORCE.skipped(HOST, "this machine has no two GeForce RTX 40 GPUs")
    row = evidence.thresholds.geforce_peer_access_fixed
    names = fold_names([f"GPU{gpu.index}" for gpu in affected])
    refs = tuple(ref for gpu in affected for ref in gpu.evidence)
    driver = affected[0].driver_version
    is_fixed = driver if isinstance(driver, Unknown) else at_least(driver, row.value)
    if isinstance(is_fixed, Unknown):
        return GEFORCE.undetermined(names, is_fixed, what="the driver's version", evidence=refs)
    if is_fixed:
        return GEFORCE.passed(
            names,
            "the driver refuses peer access, which does not work on these GPUs",
            observed=str(driver),
            evidence=refs,
        )
    return GEFORCE.warned(
        names,
        "the driver offers peer access that does not work on these GPUs",
        expected=f"driver {row.value} or newer",
        observed=str(driver),
        remedy=Remedy(
            text="Update the driver; until then set NCCL_P2P_DISABLE=1.", command="export NCCL_P2P_DISABLE=1"
        ),
        evidence=(*refs, row.ref),
    )


def _without_table(
    evidence: Evidence, gpus: Sequence[Gpu], access: tuple[PeerAccess, ...] | Unknown
) -> Iterator[Finding]:
    """Judge by the matrix of distances: a platform that hides the PCI tree offers no peer access."""
    if len(gpus) < 2:
        yield ACCESS.skipped(HOST, "one GPU has no peer")
    elif (hidden := _hidden_tree(evidence, gpus)) is not None:
        yield ACCESS.warned(
            fold_names([f"GPU{gpu.index}" for gpu in gpus]),
            "the platform hides how the GPUs are connected, and therefore offers no peer access",
            expected="no SYS between two GPUs of one NUMA node",
            observed="every pair is SYS, even two GPUs of one NUMA node",
            remedy=_PLATFORM,
            evidence=hidden,
        )
    else:
        none = Unknown(Reason.NOT_RECORDED, "peer access was recorded for no pair of GPUs")
        yield ACCESS.undetermined(HOST, access if isinstance(access, Unknown) else none, what="peer access")


def _hidden_tree(evidence: Evidence, gpus: Sequence[Gpu]) -> tuple[EvidenceRef, ...] | None:
    """Return evidence if every pair of devices is SYS although two GPUs are on one NUMA node."""
    links = evidence.facts.links
    if isinstance(links, Unknown) or not links or any(link.kind != "SYS" for link in links):
        return None
    nodes = {f"GPU{gpu.index}": gpu.numa_node for gpu in gpus}
    same = [
        link for link in links if isinstance(node := nodes.get(link.a), int) and nodes.get(link.b) == node
    ]
    return evidence_of(same) if same else None


def _joined(evidence: Evidence, gpus: Sequence[Gpu]) -> set[frozenset[str]] | None:
    """Return the pairs with NVLink; None if all GPUs are of models with switches or a full mesh."""
    links = evidence.facts.links
    if known(links) and any(_is_between_gpus(link) for link in links):
        return {frozenset((link.a, link.b)) for link in links if link.kind == "NVLINK"}
    return None if all(_is_meshed(gpu, evidence) for gpu in gpus) else set()


def _is_between_gpus(link: Link) -> bool:
    return link.a.startswith("GPU") and link.b.startswith("GPU")


def _is_joined(pair: PeerAccess, joined: set[frozenset[str]] | None) -> bool:
    return joined is None or frozenset((pair.a, pair.b)) in joined
