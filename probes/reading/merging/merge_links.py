"""Merge the statements of several sources about the links between devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from probes.base.record import EvidenceRef, Unknown
from probes.facts import Contradiction, Link, Reading


def merge_links(sources: Sequence[tuple[Link, ...]]) -> tuple[tuple[Link, ...], tuple[Contradiction, ...]]:
    """Return each pair once, in the order of first appearance; the first source that knows a pair decides.

    NVLink outranks any PCIe distance, because a listing of the PCI bus does not show NVLinks. Two sources
    with different numbers of NVLinks contradict each other. Two PCIe distances do not, because tools classify
    them differently (on Grace nvidia-smi prints SYS for a single NUMA node).
    """
    by_pair: dict[frozenset[str], list[Link]] = {}
    for links in sources:
        for link in links:
            by_pair.setdefault(frozenset((link.a, link.b)), []).append(link)
    contradictions: list[Contradiction] = []
    merged: list[Link] = []
    for statements in by_pair.values():
        best = next(
            (link for link in statements if link.kind == "NVLINK" and link.nvlink_count is not None), None
        )
        best = best or next((link for link in statements if link.kind == "NVLINK"), None)
        best = best or next(
            (link for link in statements if not isinstance(link.kind, Unknown)), statements[0]
        )
        evidence = tuple(dict.fromkeys(ref for link in statements for ref in link.evidence))
        sees_nvlink = any(link.sees_nvlink for link in statements)
        merged.append(msgspec.structs.replace(best, sees_nvlink=sees_nvlink, evidence=evidence))
        conflict = _conflict(statements)
        if conflict:
            contradictions.append(
                Contradiction(subject=f"{best.a}-{best.b}", field="nvlink_count", readings=conflict)
            )
    return tuple(merged), tuple(contradictions)


def _conflict(links: Sequence[Link]) -> tuple[Reading, ...]:
    """Return the different numbers of NVLinks, each with its first source; empty if all agree."""
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
