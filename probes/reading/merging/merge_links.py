"""Put together what several sources say of the links between devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from probes.base.record import EvidenceRef, Unknown
from probes.facts import Contradiction, Link, Reading


def merge_links(sources: Sequence[tuple[Link, ...]]) -> tuple[tuple[Link, ...], tuple[Contradiction, ...]]:
    """Each pair once, in the order in which pairs first appear; of `sources`, the first that knows a pair has
    the last word.

    NVLink goes before any PCIe distance: a listing of the PCI bus does not see it. Two sources that see
    NVLinks and count them differently contradict each other; two PCIe distances do not, as tools draw their
    lines differently (on Grace nvidia-smi prints SYS where the NUMA node is one).
    """
    by_pair: dict[frozenset[str], list[Link]] = {}
    for links in sources:
        for link in links:
            by_pair.setdefault(frozenset((link.a, link.b)), []).append(link)
    found: list[Contradiction] = []
    merged: list[Link] = []
    for said in by_pair.values():
        best = next((link for link in said if link.kind == "NVLINK" and link.nvlink_count is not None), None)
        best = best or next((link for link in said if link.kind == "NVLINK"), None)
        best = best or next((link for link in said if not isinstance(link.kind, Unknown)), said[0])
        evidence = tuple(dict.fromkeys(ref for link in said for ref in link.evidence))
        sees_nvlink = any(link.sees_nvlink for link in said)
        merged.append(msgspec.structs.replace(best, sees_nvlink=sees_nvlink, evidence=evidence))
        conflict = _conflict(said)
        if conflict:
            found.append(Contradiction(subject=f"{best.a}-{best.b}", field="nvlink_count", readings=conflict))
    return tuple(merged), tuple(found)


def _conflict(links: Sequence[Link]) -> tuple[Reading, ...]:
    """The different numbers of NVLinks, each with its first source; empty where all agree."""
    counts: dict[int, EvidenceRef] = {}
    for link in links:
        if link.nvlink_count is not None:
            counts.setdefault(
                link.nvlink_count,
                link.evidence[0] if link.evidence else EvidenceRef(source="unknown", key=""),
            )
    if len(counts) < 2:
        return ()
    return tuple(Reading(value=str(count), evidence=ref) for count, ref in counts.items())
