"""Merge the statements of several texts about the ports of one machine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from probes.base.record import Unknown, only_known
from probes.facts import Contradiction, Nic
from probes.reading.merging import merge

VOLATILE = frozenset({
    "state", "physical_state", "netdev_up", "sm_lid", "pre_fec_bit_error_rate", "bit_error_rate",
    "advice", "pcie.generation",
})  # fmt: skip
"""Fields that may change between two readings of a port."""


def merge_nics(records: Sequence[Nic]) -> tuple[tuple[Nic, ...], tuple[Contradiction, ...]]:
    """Return one record per port, in the order of first appearance. `records` are in order of trust.

    A record without a name belongs to the ports of its PCI device, else to those of its LID; without a match
    it stays separate under its address or LID. A record of a PCI device is left out if named ports have no
    address: the record may describe one of them, and a card would count twice.
    """
    ports: dict[tuple[str, int], list[Nic]] = {}
    for nic in records:
        if nic.name:
            ports.setdefault((nic.name, nic.port), []).append(nic)
    unplaced = any(all(isinstance(nic.pci_bus_id, Unknown) for nic in group) for group in ports.values())
    for nic in records:
        if not nic.name:
            alone = [] if unplaced and isinstance(nic.pci_bus_id, str) else [_own_key(nic)]
            for key in _same(ports, nic) or alone:
                named = msgspec.structs.replace(nic, name=key[0], port=key[1])
                ports.setdefault(key, []).append(named)
    merged: list[Nic] = []
    contradictions: list[Contradiction] = []
    for (name, port), group in ports.items():
        record, conflicts = merge(name if port == 1 else f"{name}:{port}", group, volatile=VOLATILE)
        merged.append(msgspec.structs.replace(record, counters=_longest(group)))
        contradictions += conflicts
    return tuple(merged), tuple(contradictions)


def _same(ports: dict[tuple[str, int], list[Nic]], nic: Nic) -> list[tuple[str, int]]:
    by_address = [
        key
        for key, group in ports.items()
        if isinstance(nic.pci_bus_id, str) and any(other.pci_bus_id == nic.pci_bus_id for other in group)
    ]
    by_lid = [
        key
        for key, group in ports.items()
        if isinstance(nic.lid, int)
        and nic.lid
        and any(other.lid == nic.lid and other.port == nic.port for other in group)
    ]
    return by_address or by_lid


def _own_key(nic: Nic) -> tuple[str, int]:
    if isinstance(nic.pci_bus_id, str):
        return nic.pci_bus_id, nic.port
    return (f"lid{nic.lid}" if isinstance(nic.lid, int) else "port"), nic.port


def _longest(group: Sequence[Nic]) -> object:
    """Return the reading with the most counters."""
    tables = only_known(nic.counters for nic in group)
    return max(tables, key=len) if tables else group[0].counters
