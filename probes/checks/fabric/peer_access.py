"""Check that the GPUs access each other's memory directly.

If the driver refuses it, NCCL copies through host memory. Between GPUs joined by NVLink a refusal is a fault;
over PCIe it is a property of the platform (a virtual machine, ACS, a GeForce driver) that costs speed.
Atomics are not needed. Source: NCCL user guide, troubleshooting: GPU direct peer to peer; `nvidia-smi topo
-p2p` legend; NVIDIA/nccl-tests#117 on RTX 40.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.base.record import EvidenceRef, Reason, Unknown, known
from probes.base.versions import at_least
from probes.facts import Gpu, Link, PeerAccess
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, fold_names, on_gpus

JUDGE = Judge(
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
    "U": "the driver does not know",
}
_AFFECTED = "geforce rtx 40"
_PLATFORM = Remedy(
    text="Turn ACS and the IOMMU's translation off where this is bare metal, and give a virtual machine "
    "GPUs below one switch. Where the platform has no peer access (GeForce, clouds), plan without it: NCCL "
    "then uses shared memory, which must be large."
)
_FAULT = Remedy(
    text="Check that the fabric is set up and that ACS is off, reset the GPUs, and look at the kernel log."
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
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
    refused: dict[tuple[str, bool], list[PeerAccess]] = {}
    for pair in wanted:
        if pair.status != "OK" and pair.capability not in _NOT_NEEDED:
            refused.setdefault((pair.status, _is_joined(pair, joined)), []).append(pair)
    for (status, is_fault), pairs in refused.items():
        yield JUDGE.problem(
            fold_names(sorted({pair.a for pair in pairs} | {pair.b for pair in pairs})),
            "GPUs joined by NVLink do not reach each other"
            if is_fault
            else "GPUs do not reach each other's memory",
            fails=is_fault,
            expected="OK",
            observed=f"{status} between {len({frozenset((pair.a, pair.b)) for pair in pairs})} pairs: "
            + _MEANING.get(status, "a status that is not in the legend"),
            remedy=_FAULT if is_fault else _PLATFORM,
            evidence=_refs(pairs),
        )
    if not refused and wanted:
        names = fold_names(sorted({pair.a for pair in wanted} | {pair.b for pair in wanted}))
        yield JUDGE.passed(names, "the GPUs reach each other's memory", observed="OK", evidence=_refs(wanted))
    elif not refused:
        yield JUDGE.skipped(
            HOST, "only the access over NVLink or for atomics was asked for, which PCIe does not need"
        )


@on_gpus(GEFORCE)
def peer_access_geforce(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    affected = [gpu for gpu in gpus if known(gpu.name) and _AFFECTED in gpu.name.lower()]
    if any(isinstance(gpu.name, Unknown) for gpu in gpus) and not affected:
        return GEFORCE.undetermined(
            HOST, next(gpu.name for gpu in gpus if isinstance(gpu.name, Unknown)), what="the GPU's model"
        )
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
            names, "the driver refuses peer access where it is broken", observed=str(driver), evidence=refs
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
    """Judge by the matrix of distances: a platform that hides the PCI tree allows no peer access."""
    if len(gpus) < 2:
        yield JUDGE.skipped(HOST, "one GPU has no peer")
    elif (hidden := _hidden_tree(evidence, gpus)) is not None:
        yield JUDGE.warned(
            fold_names([f"GPU{gpu.index}" for gpu in gpus]),
            "the platform hides how the GPUs are connected, and with it peer access",
            expected="pairs of one NUMA node closer than SYS",
            observed="every pair is SYS, also on one NUMA node",
            remedy=_PLATFORM,
            evidence=hidden,
        )
    elif isinstance(access, Unknown):
        yield JUDGE.undetermined(HOST, access, what="peer access")
    else:
        yield JUDGE.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "no pair of GPUs was asked for"), what="peer access"
        )


def _hidden_tree(evidence: Evidence, gpus: Sequence[Gpu]) -> tuple[EvidenceRef, ...] | None:
    """Return evidence that every pair of devices is SYS although two GPUs are on one NUMA node; else None."""
    links = evidence.facts.links
    if isinstance(links, Unknown) or not links or any(link.kind != "SYS" for link in links):
        return None
    nodes = {f"GPU{gpu.index}": gpu.numa_node for gpu in gpus}
    same = [
        link for link in links if isinstance(node := nodes.get(link.a), int) and nodes.get(link.b) == node
    ]
    return tuple(dict.fromkeys(ref for link in same for ref in link.evidence)) if same else None


def _joined(evidence: Evidence, gpus: Sequence[Gpu]) -> set[frozenset[str]] | None:
    """Return the pairs with NVLink; None if all GPUs are of a kind that has switches or a full mesh."""
    links = evidence.facts.links
    if known(links) and any(_is_between_gpus(link) for link in links):
        return {frozenset((link.a, link.b)) for link in links if link.kind == "NVLINK"}
    rows = [evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None for gpu in gpus]
    is_meshed = all(row is not None and row.nvlink_count >= 8 and not row.nvlink_bridge for row in rows)
    return None if is_meshed else set()


def _is_between_gpus(link: Link) -> bool:
    return link.a.startswith("GPU") and link.b.startswith("GPU")


def _is_joined(pair: PeerAccess, joined: set[frozenset[str]] | None) -> bool:
    return joined is None or frozenset((pair.a, pair.b)) in joined


def _refs(pairs: Sequence[PeerAccess]) -> tuple[EvidenceRef, ...]:
    return tuple(dict.fromkeys(ref for pair in pairs for ref in pair.evidence))
