"""Merge the reports of several sources about one object, and note contradictions.

`merge` is for all kinds of record. `merge_interfaces`, `merge_links` and `merge_nics` first match the records
of one object; `merge_gpus.py` does this for GPUs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from probes.base.grouping import grouped
from probes.base.record import EvidenceRef, Record, Unknown, known, only_known
from probes.facts import Contradiction, Interface, Link, Nic, Reading

R = TypeVar("R", bound=Record)
Merged = tuple[tuple[R, ...], tuple[Contradiction, ...]]
"""Merged records, and the contradictions between their sources."""

_SPREAD = 0.02
"""Largest relative difference caused by rounding (MiB and bytes, W and mW)."""


def merge(
    subject: str, records: Sequence[R], *, volatile: frozenset[str]
) -> tuple[R, tuple[Contradiction, ...]]:
    """Return a record with the first known value of each field. `records` are in order of trust.

    Fields named in `volatile` (`temperature_c`, or `pcie.generation` inside a record) change from moment to
    moment and never contradict each other; neither do tuples and dicts, whose parts a tool may leave out.
    The evidence of all records is kept.
    """
    contradictions: list[Contradiction] = []
    sources = [_reference(record) for record in records]
    return _merge(subject, "", records, sources, volatile, contradictions), tuple(contradictions)


def fill_unknown(record: R, values: Mapping[str, object]) -> R:
    """Return the record with `values` for its unknown fields; the record itself if no value is new."""
    new = {
        name: value
        for name, value in values.items()
        if value is not None and known(value) and not known(getattr(record, name))
    }
    return msgspec.structs.replace(record, **new) if new else record


def merge_groups(groups: Iterable[tuple[str, Sequence[R]]], *, volatile: frozenset[str]) -> Merged[R]:
    """Merge the records of each group. A group is a subject and the records of several sources about it."""
    merged: list[R] = []
    contradictions: list[Contradiction] = []
    for subject, records in groups:
        record, conflicts = merge(subject, records, volatile=volatile)
        merged.append(record)
        contradictions += conflicts
    return tuple(merged), tuple(contradictions)


def _merge(  # noqa: PLR0917 - a recursion with its state
    subject: str,
    prefix: str,
    records: Sequence[R],
    sources: Sequence[EvidenceRef],
    volatile: frozenset[str],
    contradictions: list[Contradiction],
) -> R:
    first = records[0]
    fields: dict[str, object] = {}
    for name in first.__struct_fields__:
        values = [getattr(record, name) for record in records]
        if name == "evidence":
            fields[name] = tuple(dict.fromkeys(ref for refs in values for ref in refs))
        elif isinstance(values[0], Record):
            fields[name] = _merge(subject, f"{prefix}{name}.", values, sources, volatile, contradictions)
        else:
            readings = [
                (value, ref)
                for value, ref in zip(values, sources, strict=True)
                if not isinstance(value, Unknown)
            ]
            fields[name] = readings[0][0] if readings else values[0]
            if f"{prefix}{name}" not in volatile and (conflict := _conflict(readings)):
                contradictions.append(
                    Contradiction(subject=subject, field=f"{prefix}{name}", readings=conflict)
                )
    return msgspec.structs.replace(first, **fields)


def _conflict(readings: Iterable[tuple[object, EvidenceRef]]) -> tuple[Reading, ...]:
    """Return the different readings, without repetitions; empty if all agree."""
    distinct: list[tuple[object, EvidenceRef]] = []
    for value, ref in readings:
        if value is None or isinstance(value, tuple | dict):
            continue
        if not any(_alike(value, other) for other, _ in distinct):
            distinct.append((value, ref))
    return (
        tuple(Reading(value=str(value), evidence=ref) for value, ref in distinct) if len(distinct) > 1 else ()
    )


def _alike(first: object, second: object) -> bool:
    if (
        isinstance(first, bool)
        or isinstance(second, bool)
        or not isinstance(first, int | float)
        or not isinstance(second, int | float)
    ):
        return str(first).lower() == str(second).lower()
    return abs(first - second) <= _SPREAD * max(abs(first), abs(second))


def _reference(record: Record) -> EvidenceRef:
    evidence = getattr(record, "evidence", ())
    return evidence[0] if evidence else EvidenceRef(source="unknown", key="")


_VOLATILE_OF_INTERFACES = frozenset(
    {"up", "speed_gbps", "carrier_changes", "link_seen_by_bond", "neighbour", "is_default_route"}
)
"""Fields that may change between two readings of an interface."""


def merge_interfaces(groups: Iterable[tuple[Interface, ...]]) -> Merged[Interface]:
    """Return one record per name, in the order of first appearance. `groups` are in order of trust."""
    by_name = grouped((interface.name, interface) for group in groups for interface in group)
    return merge_groups(by_name.items(), volatile=_VOLATILE_OF_INTERFACES)


def merge_links(sources: Sequence[tuple[Link, ...]]) -> Merged[Link]:
    """Return each pair once, in the order of first appearance, with its most specific kind.

    Equally specific kinds are taken from the first source. A PCIe distance has priority over an unknown kind,
    and NVLink over any PCIe distance, because a listing of the PCI bus does not show NVLinks. Two sources
    with different numbers of NVLinks contradict each other. Two PCIe distances do not contradict each other,
    because tools classify distances differently (on Grace nvidia-smi prints SYS for a single NUMA node).
    """
    by_pair = grouped((frozenset((link.a, link.b)), link) for links in sources for link in links)
    contradictions: list[Contradiction] = []
    merged: list[Link] = []
    for statements in by_pair.values():
        best = max(statements, key=_rank)
        evidence = tuple(dict.fromkeys(ref for link in statements for ref in link.evidence))
        sees_nvlink = any(link.sees_nvlink for link in statements)
        merged.append(msgspec.structs.replace(best, sees_nvlink=sees_nvlink, evidence=evidence))
        counts = [
            (link.nvlink_count, _reference(link)) for link in statements if link.nvlink_count is not None
        ]
        if conflict := _conflict(counts):
            subject = f"{best.a}-{best.b}"
            contradictions.append(Contradiction(subject=subject, field="nvlink_count", readings=conflict))
    return tuple(merged), tuple(contradictions)


def _rank(link: Link) -> int:
    """Return how specific the kind of a link is; NVLink with a number of links is the most specific."""
    if link.kind == "NVLINK":
        return 2 if link.nvlink_count is None else 3
    return 0 if isinstance(link.kind, Unknown) else 1


_VOLATILE_OF_NICS = frozenset({
    "state", "physical_state", "netdev_up", "sm_lid", "pre_fec_bit_error_rate", "bit_error_rate",
    "advice", "pcie.generation",
})  # fmt: skip
"""Fields that may change between two readings of a port."""


def merge_nics(records: Sequence[Nic]) -> Merged[Nic]:
    """Return one record per port, in the order of first appearance. `records` are in order of trust.

    A record without a name belongs to the ports of its PCI device, or else to the ports with its LID and port
    number. An unmatched record stays separate, named by its address or LID. But an unmatched record with a
    PCI address is left out if the address of any named port is unknown: the record may describe this port,
    and the card would be counted twice.
    """
    ports = grouped(((nic.name, nic.port), nic) for nic in records if nic.name)
    unplaced = any(all(isinstance(nic.pci_bus_id, Unknown) for nic in group) for group in ports.values())
    for nic in records:
        if not nic.name:
            alone = [] if unplaced and isinstance(nic.pci_bus_id, str) else [_own_key(nic)]
            for key in _same(ports, nic) or alone:
                named = msgspec.structs.replace(nic, name=key[0], port=key[1])
                ports.setdefault(key, []).append(named)
    groups = [(name if port == 1 else f"{name}:{port}", group) for (name, port), group in ports.items()]
    merged, contradictions = merge_groups(groups, volatile=_VOLATILE_OF_NICS)
    return tuple(
        msgspec.structs.replace(record, counters=_longest(group))
        for record, (_, group) in zip(merged, groups, strict=True)
    ), contradictions


def _same(ports: dict[tuple[str, int], list[Nic]], nic: Nic) -> list[tuple[str, int]]:
    """Return the ports to which a record without a name belongs."""
    by_address = [
        key
        for key, group in ports.items()
        if isinstance(nic.pci_bus_id, str) and any(other.pci_bus_id == nic.pci_bus_id for other in group)
    ]
    return by_address or [
        key
        for key, group in ports.items()
        if isinstance(nic.lid, int)
        and nic.lid
        and any((other.lid, other.port) == (nic.lid, nic.port) for other in group)
    ]


def _own_key(nic: Nic) -> tuple[str, int]:
    if isinstance(nic.pci_bus_id, str):
        return nic.pci_bus_id, nic.port
    return (f"lid{nic.lid}" if isinstance(nic.lid, int) else "port"), nic.port


def _longest(group: Sequence[Nic]) -> object:
    """Return the reading with the most counters."""
    tables = only_known(nic.counters for nic in group)
    return max(tables, key=len) if tables else group[0].counters
