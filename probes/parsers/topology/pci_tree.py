"""Compute distances in a PCI tree that is known by the bridge above each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from probes.base.record import Unknown
from probes.facts import Link, PciDevice
from probes.parsers.topology.pci_addresses import pci_distance

_DEEPEST = 64


class End(NamedTuple):
    """One end of a link: its name (GPU0, mlx5_0) and its PCI device."""

    name: str
    device: PciDevice


def sysfs_path(device: PciDevice, devices: Mapping[str, PciDevice]) -> str | Unknown:
    """Return the path of `device` as sysfs would write it; Unknown if the tree does not reach the root.

    Devices below the same root bus share a host bridge.
    """
    chain = [device.bus_id]
    parent = device.parent
    while isinstance(parent, str) and len(chain) < _DEEPEST and parent not in chain:
        chain.append(parent)
        above = devices.get(parent)
        parent = None if above is None else above.parent
    if isinstance(parent, Unknown):
        return parent
    root = chain[-1].rpartition(":")[0]
    return "/".join(("", f"pci{root}", *reversed(chain)))


def tree_links(
    ends: Sequence[End], devices: Mapping[str, PciDevice], nvlinks: Mapping[frozenset[str], int | None]
) -> tuple[Link, ...]:
    """Return the links of all pairs of `ends`; `nvlinks` contains the numbers of NVLinks by two addresses."""
    paths = {end.device.bus_id: sysfs_path(end.device, devices) for end in ends}
    links: list[Link] = []
    for a, b in combinations(ends, 2):
        pair = frozenset((a.device.bus_id, b.device.bus_id))
        evidence = tuple(dict.fromkeys((*a.device.evidence, *b.device.evidence)))
        if pair in nvlinks:
            links.append(
                Link(a=a.name, b=b.name, kind="NVLINK", nvlink_count=nvlinks[pair], evidence=evidence)
            )
            continue
        path_a, path_b = paths[a.device.bus_id], paths[b.device.bus_id]
        if isinstance(path_a, Unknown) or isinstance(path_b, Unknown):
            kind = path_a if isinstance(path_a, Unknown) else path_b
            links.append(Link(a=a.name, b=b.name, kind=kind, evidence=evidence))  # type: ignore[arg-type]
        else:
            kind = pci_distance(path_a, path_b, a.device.numa_node, b.device.numa_node)
            links.append(Link(a=a.name, b=b.name, kind=kind, evidence=evidence))
    return tuple(links)
