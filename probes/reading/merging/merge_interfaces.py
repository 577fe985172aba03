"""Merge the statements of several texts about the network interfaces of one machine."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from probes.base.record import EvidenceRef
from probes.facts import Contradiction, Interface
from probes.reading.merging import merge

_VOLATILE = frozenset(
    {"up", "speed_gbps", "carrier_changes", "link_seen_by_bond", "neighbour", "is_default_route"}
)
"""Fields that change when a cable is unplugged."""


def from_text(interfaces: Iterable[Interface], evidence: EvidenceRef) -> tuple[Interface, ...]:
    """Return `interfaces` with their text as evidence."""
    return tuple(msgspec.structs.replace(interface, evidence=(evidence,)) for interface in interfaces)


def merge_interfaces(
    groups: Iterable[tuple[Interface, ...]],
) -> tuple[tuple[Interface, ...], tuple[Contradiction, ...]]:
    """Return one record per name, in the order of first appearance. `groups` are in order of trust."""
    by_name: dict[str, list[Interface]] = {}
    for group in groups:
        for interface in group:
            by_name.setdefault(interface.name, []).append(interface)
    merged = [merge(name, records, volatile=_VOLATILE) for name, records in by_name.items()]
    return tuple(record for record, _ in merged), tuple(
        conflict for _, conflicts in merged for conflict in conflicts
    )
