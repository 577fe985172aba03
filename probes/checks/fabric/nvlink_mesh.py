"""Check that all pairs of GPUs have the same NVLinks.

With NVSwitches, the link count of a pair is that of the GPU with fewer links. In a mesh or a hybrid cube the
pairs differ, and each GPU still has the same sum; a smaller sum means a dead link. Machines with PCIe only,
or with bridges between pairs, are built differently, and so are AMD's, whose pairs differ by design. A source
that knows only the PCI bus reports nothing about NVLinks. Source: NVIDIA HGX and DGX-1 system architecture;
NCCL user guide, topology; `nvidia-smi topo -m` legend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from probes.base.record import EvidenceRef, Reason, Unknown, known
from probes.facts import Gpu, Link
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, fold_names, on_gpus

JUDGE = Judge(
    check_id="nvlink-mesh",
    why="A ring passes every GPU: the pair with the fewest links sets the speed for all, and one without "
    "any goes over PCIe.",
)

_WHOLE_BOARDS = frozenset({8, 16})
"""GPUs of a board. Fewer GPUs may be a part of a hybrid cube that was given to a container."""
_MOST_BRIDGED = 4
"""GPUs that one bridge joins (H200 NVL)."""
_MORE_THAN_A_CUBE = 4
"""Links of one pair; a hybrid cube of P100 or V100 gives one or two."""

_RESET = Remedy(
    text="Check the Fabric Manager and the NVLink state, end all jobs and reset the GPUs; what stays down "
    "needs service.",
    command="nvidia-smi nvlink -s",
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Findings:
    if len(gpus) < 2:
        return JUDGE.skipped(HOST, "one GPU has no peer")
    links = evidence.facts.links
    if isinstance(links, Unknown):
        return JUDGE.undetermined(HOST, links, what="the links between the GPUs")
    pairs = {
        frozenset((link.a, link.b)): link
        for link in links
        if link.a.startswith("GPU") and link.b.startswith("GPU")
    }
    unread = next((link.kind for link in pairs.values() if isinstance(link.kind, Unknown)), None)
    if not pairs or unread is not None:
        missing = unread or Unknown(Reason.NOT_RECORDED, "no pair of GPUs is known")
        return JUDGE.undetermined(HOST, missing, what="the links between the GPUs")
    return _judge(evidence, gpus, pairs)


def _judge(evidence: Evidence, gpus: Sequence[Gpu], pairs: dict[frozenset[str], Link]) -> Iterator[Finding]:
    names = [f"GPU{gpu.index}" for gpu in gpus]
    refs = tuple(dict.fromkeys(ref for link in pairs.values() for ref in link.evidence))
    if not any(link.sees_nvlink or link.kind == "NVLINK" for link in pairs.values()):
        yield JUDGE.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "only the PCI bus was read"), what="the NVLinks", evidence=refs
        )
        return
    if any(known(gpu.name) and gpu.name.startswith("AMD ") for gpu in gpus):
        yield JUDGE.skipped(HOST, "the links between AMD's GPUs differ by design", evidence=refs)
        return
    if any(link.kind == "NVLINK" and link.nvlink_count is None for link in pairs.values()):
        yield JUDGE.skipped(HOST, "the number of links between two GPUs is unknown", evidence=refs)
        return
    totals = {name: _sum(name, names, pairs) for name in names}
    sums = {name: total for name, total in totals.items() if total is not None}
    if len(sums) < 2:
        yield JUDGE.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "the matrix was cut"), what="some pairs of GPUs", evidence=refs
        )
        return
    # GPUs without any NVLink are a fault of their own; only then do different sums mean dead links.
    bare = _left_out(sums) or _unlinked(evidence, gpus, pairs)
    if bare:
        yield JUDGE.failed(
            fold_names(bare),
            "GPUs reach their peers over PCIe, where others have NVLink or should have it",
            expected="NVLink between all pairs",
            observed=_kinds(pairs),
            remedy=_RESET,
            evidence=refs,
        )
    elif not any(sums.values()):
        yield JUDGE.skipped(HOST, "no two GPUs are joined by NVLink", evidence=refs)
    elif 0 in sums.values() or len(set(sums.values())) == 1:
        is_even = len(set(sums.values())) == 1
        yield JUDGE.passed(
            fold_names(list(sums)),
            "every GPU has the same NVLinks to its peers" if is_even else "bridges join some of the GPUs",
            observed=_kinds(pairs),
            evidence=refs,
        )
    elif len(gpus) in _WHOLE_BOARDS or _is_full_mesh(pairs):
        yield _uneven(sums, pairs, refs)
    else:
        yield JUDGE.skipped(
            HOST, "these may be some GPUs of a hybrid cube, whose pairs differ", evidence=refs
        )


def _uneven(
    sums: dict[str, int], pairs: dict[frozenset[str], Link], refs: tuple[EvidenceRef, ...]
) -> Finding:
    """Return the failure of GPUs that have lost links.

    One link less at one GPU also lowers the sums of its peers, by less than its own.
    """
    least, most = min(sums.values()), max(sums.values())
    poor = [name for name, total in sums.items() if total == least]
    return JUDGE.failed(
        fold_names(poor),
        "fewer NVLinks than the other GPUs have",
        expected=f"{most} in all to the other GPUs",
        observed=f"{least}; pairs: {_kinds(pairs)}",
        remedy=_RESET,
        evidence=refs,
    )


def _is_full_mesh(pairs: dict[frozenset[str], Link]) -> bool:
    """Return whether all pairs have NVLink, and more links than a cube gives to one pair."""
    counts = [link.nvlink_count or 0 for link in pairs.values()]
    return min(counts) > 0 and max(counts) >= _MORE_THAN_A_CUBE


def _sum(name: str, names: Sequence[str], pairs: dict[frozenset[str], Link]) -> int | None:
    """Return the number of NVLinks of one GPU to all its peers; None if one of its pairs is unknown."""
    links = [pairs.get(frozenset((name, other))) for other in names if other != name]
    counts = [link.nvlink_count or 0 for link in links if link is not None]
    return sum(counts) if len(counts) == len(links) else None


def _left_out(sums: dict[str, int]) -> list[str]:
    """Return the GPUs without any NVLink, if the GPUs with NVLinks are more than one bridge can join."""
    bare = sorted(name for name, total in sums.items() if total == 0)
    return bare if len(sums) - len(bare) > _MOST_BRIDGED else []


def _unlinked(evidence: Evidence, gpus: Sequence[Gpu], pairs: dict[frozenset[str], Link]) -> list[str]:
    """Return GPUs that should sit behind switches or in a full mesh and have a pair without NVLink."""
    meshed: set[str] = set()
    for gpu in gpus:
        row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
        # GPUs with six links (V100) form a cube in which some pairs have no NVLink by design.
        if (
            row is not None
            and row.nvlink_count >= 8
            and not row.nvlink_bridge
            and gpu.mig_enabled is not True
        ):
            meshed.add(f"GPU{gpu.index}")
    bare: set[str] = set()
    for pair, link in pairs.items():
        if pair <= meshed and link.kind != "NVLINK" and link.sees_nvlink:
            bare |= pair
    return sorted(bare)


def _kinds(pairs: dict[frozenset[str], Link]) -> str:
    """Return the kinds of pairs, the most frequent first: `NV18 x 28`."""
    counts = Counter(
        f"NV{link.nvlink_count}" if link.kind == "NVLINK" else str(link.kind) for link in pairs.values()
    )
    return ", ".join(f"{kind} x {count}" for kind, count in counts.most_common(6))
