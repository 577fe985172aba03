"""Normal forms of PCI addresses and links, and distances between PCI devices."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from probes.base.patterns import pattern
from probes.base.record import Reason, Unknown, first_unknown, quoted
from probes.facts import Link, LinkKind, PciDevice

_ADDRESS = pattern(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.IGNORECASE)
_ROOT = pattern(r"pci[0-9a-f]{4,}:[0-9a-f]{2}", re.IGNORECASE)

_RATE = pattern(r"\d{1,3}(?:\.\d{1,3})?")

GENERATION_BY_SPEED = {
    "2.5": 1,
    "5": 2,
    "5.0": 2,
    "8": 3,
    "8.0": 3,
    "16": 4,
    "16.0": 4,
    "32": 5,
    "32.0": 5,
    "64": 6,
    "64.0": 6,
}
"""PCIe generation by the rate in GT/s, in the spellings of Linux and lspci.

Source: PCI Express Base Specification 6.0 (2022), table of data rates.
"""

_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
"""Lane counts of the specification. A device without a real link (in a VM) shows 0, 63 or 255."""

_DEEPEST = 64


def normal_address(text: str) -> str | Unknown:
    """Return the address as sysfs writes it: `0000:1b:00.0` for `00000000:1B:00.0` of NVML and `1b:00.0`."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a PCI address")
    domain, bus, device = (int(part or "0", 16) for part in match.groups()[:3])
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match[4]}"


def link_generation(speed: str) -> int | Unknown:
    """Return the PCIe generation of a sysfs speed: 5 for `32.0 GT/s PCIe`.

    The value is Unknown (unparsable) for a rate that no generation has.
    """
    value = speed.split(" ", 1)[0]
    if value in GENERATION_BY_SPEED and "GT/s" in speed:
        return GENERATION_BY_SPEED[value]
    if "GT/s" in speed and _RATE.fullmatch(value):
        return Unknown(Reason.UNPARSABLE, f"link speed {value} GT/s")
    return Unknown(Reason.NOT_SUPPORTED, f"link speed {quoted(speed)}")


def link_width(text: str) -> int | Unknown:
    """Return the number of lanes: 16 for sysfs's `16` and nvidia-smi's `16x`."""
    digits = text.strip().removesuffix("x")
    if digits.isascii() and digits.isdigit() and int(digits) in _WIDTHS:
        return int(digits)
    return Unknown(Reason.NOT_SUPPORTED, f"link width {quoted(text)}")


def pci_distance(
    path_a: str, path_b: str, numa_a: int | Unknown | None, numa_b: int | Unknown | None
) -> LinkKind | Unknown:
    """Return the distance of two PCI devices from their canonical sysfs paths and NUMA nodes.

    The kinds are taken from the legend of `nvidia-smi topo`: PIX at most one switch, PXB several switches
    without the host bridge, PHB through one host bridge, NODE between host bridges of a NUMA node, SYS
    between nodes. In sysfs a switch is an upstream port with one downstream port per device, so devices on
    one switch lie at most two levels below their last common bridge. A shared `pciDDDD:BB` root means PHB,
    and two devices without a node count as devices of one node. NCCL had the same rules before it had a graph
    (NVIDIA/nccl, src/graph/topo.cc, pciDistance; read 2026-11).

    On Grace every device has its own PCI domain. `nvidia-smi topo` prints SYS between each GPU and each NIC
    there, because the domains have no common root. The NUMA node contains more information, so devices of the
    same CPU are NODE here.
    """
    parts_a, parts_b = path_a.split("/"), path_b.split("/")
    root_a, root_b = _root_index(parts_a), _root_index(parts_b)
    if root_a is None or root_b is None:
        return Unknown(
            Reason.UNPARSABLE, f"{path_a if root_a is None else path_b} is not below a PCI host bridge"
        )
    if parts_a[: root_a + 1] != parts_b[: root_b + 1]:
        return _across_roots(numa_a, numa_b)
    common = len(posixpath.commonprefix([parts_a, parts_b]))
    if common == root_a + 1:
        return "PHB"
    return "PIX" if max(len(parts_a), len(parts_b)) - common <= 2 else "PXB"


def _root_index(parts: list[str]) -> int | None:
    return next((index for index, part in enumerate(parts) if _ROOT.fullmatch(part)), None)


def _across_roots(numa_a: int | Unknown | None, numa_b: int | Unknown | None) -> LinkKind | Unknown:
    if unknown := first_unknown(numa_a, numa_b):
        return unknown
    if (numa_a is None) != (numa_b is None):
        return Unknown(Reason.NOT_SUPPORTED, "the platform reports the NUMA node of only one of the two")
    return "NODE" if numa_a == numa_b else "SYS"


class End(NamedTuple):
    """One end of a link: its name (GPU0, mlx5_0) and its PCI device."""

    name: str
    device: PciDevice


def sysfs_path(device: PciDevice, devices: Mapping[str, PciDevice]) -> str | Unknown:
    """Return the path of `device` in the form of sysfs; Unknown if the tree does not reach the root.

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
        path_a, path_b = paths[a.device.bus_id], paths[b.device.bus_id]
        kind: LinkKind | Unknown
        if pair in nvlinks:
            kind = "NVLINK"
        elif isinstance(path_a, Unknown):
            kind = path_a
        else:
            nodes = a.device.numa_node, b.device.numa_node
            kind = path_b if isinstance(path_b, Unknown) else pci_distance(path_a, path_b, *nodes)
        evidence = tuple(dict.fromkeys((*a.device.evidence, *b.device.evidence)))
        count = nvlinks.get(pair)
        links.append(Link(a=a.name, b=b.name, kind=kind, nvlink_count=count, evidence=evidence))
    return tuple(links)
