"""Parse the tree of `lspci -t`, with or without names (-tv, -tvnn).

The tree shows addresses and bridges; only its name shows what a device is. A bus is printed in brackets, its
devices in one column, one line for each. Source: pciutils, lspci.c and ls-tree.c (read 2026-11).
"""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED
from probes.facts import PciDevice, PciKind
from probes.parsers.topology.pci_classes import vendor_of_words

_ROOT = pattern(r"^[ -]?[-+\\|` ]{0,400}-?\[[0-9a-f]{4,8}:[0-9a-f]{2}[^\]\n]{0,12}\]-", re.MULTILINE)
_TOKEN = pattern(
    r"\[(?:([0-9a-f]{4,8}):)?([0-9a-f]{2})(?:-[0-9a-f]{2})?(?:/[0-9a-f]{2})?\](?=-|$)"
    r"|([0-9a-f]{2}\.[0-7])(?= |-|$)"
)
_NAME = pattern(r" {2,}(\S.{1,200})")
_IDS = pattern(r" ?\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_GPU = pattern(
    r"NVIDIA Corporation "
    r"(?!.{0,60}(?:Audio|USB|UCSI|Serial|Bridge|Switch|\[10de:1af1\]|\[10de:22a3\]|\[10de:1ac2\]))"
)
_SWITCH = pattern(r"NVIDIA Corporation .{0,60}(?:NVSwitch|\[10de:1af1\]|\[10de:22a3\]|\[10de:1ac2\])")
_ADAPTER = pattern(
    r"Mellanox .{0,80}(?:ConnectX|Connect-IB|BlueField|MT\d{4,5})(?!.{0,60}(?:Bridge|Switch|DMA|Crypto|SoC))"
)
_LONGEST = 1000
_MOST_COLUMNS = 400


def is_tree(text: str) -> bool:
    return "-[" in text and _ROOT.search(text) is not None


def parse_tree(text: str) -> tuple[PciDevice, ...]:
    """Return every device with the bridge above it."""
    devices: dict[str, PciDevice] = {}
    columns: dict[int, tuple[str, str, str | None]] = {}
    # Domain, number and upper bridge of the bus whose devices are printed in a column.
    for number, line in enumerate(text.splitlines(), 1):
        bus: tuple[str, str, str | None] | None = None
        domain, bridge, end = "0000", None, 0
        for token in _TOKEN.finditer(line[:_LONGEST]):
            start = token.start()
            if start > _MOST_COLUMNS or line[end:start].strip(" |+-\\`"):
                break  # The rest is a name.
            end = token.end()
            if token[3] is None:
                domain = token[1][-4:] if token[1] else domain
                bus = (domain, token[2], bridge)
                continue
            place = bus or columns.get(start)
            if place is None:
                break  # The line that names the bus is missing.
            columns[start] = place
            domain, bus = place[0], None
            bridge = f"{place[0]}:{place[1]}:{token[3]}"
            devices[bridge] = _device(bridge, place[2], line[end:_LONGEST], number)
    return tuple(devices.values())


def _device(address: str, parent: str | None, rest: str, line: int) -> PciDevice:
    match = _NAME.match(rest)
    name = match[1].strip() if match else ""
    ids = _IDS.findall(name)
    kind: PciKind = "bridge" if rest.startswith("-[") else _kind(name)
    return PciDevice(
        bus_id=address,
        kind=kind,
        device_id=ids[-1] if ids else NOT_RECORDED,
        name=_IDS.sub("", name) or NOT_RECORDED,
        parent=parent,
        evidence=(line_ref(line),),
    )


def _kind(name: str) -> PciKind:
    """Return the kind that a name shows; `other` if the name does not decide, as a tree has no classes."""
    if vendor_of_words(name) is None:
        return "other"
    if _SWITCH.match(name):
        return "nvswitch"
    if _GPU.match(name):
        return "gpu"
    return "rdma" if _ADAPTER.match(name) else "other"
