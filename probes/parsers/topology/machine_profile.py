"""An expected hardware profile: PCI address to device, with the link it should have, and the network ports.

Source of the format: the health checks of facebookresearch/gcm (gcm/tests/data/health_checks/*.json), read
2026-11.
"""

from __future__ import annotations

import re
from typing import Any

from probes.base.record import NOT_RECORDED, Unknown
from probes.facts.expected import ExpectedDevice, ExpectedPort, Profile
from probes.parsers.tools.documents import load_json, members, table, whole, word
from probes.parsers.topology.pci_addresses import link_generation, link_width, normal_address

_HEAD = re.compile(r"^\s*\{")
_PCI = re.compile(r"\"pci\"\s*:\s*\{")
_RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) Gb/sec")
_MOST = 4096


def recognise(text: str) -> bool:
    head = text[:20_000]
    return bool(_HEAD.match(head) and _PCI.search(head)) and '"link_width"' in head and '"link_speed"' in head


def parse_machine_profile(text: str) -> Profile:
    """The devices and ports that should be there."""
    document = load_json(text)
    devices = tuple(
        device
        for address, row in list(table(document, "pci").items())[:_MOST]
        if isinstance(row, dict) and (device := _device(address, row)) is not None
    )
    ports = (*_infiniband(table(document, "ib")), *_ethernet(table(document, "eth")))
    return Profile(devices=devices or NOT_RECORDED, ports=ports or NOT_RECORDED)


def _device(address: str, row: dict[str, Any]) -> ExpectedDevice | None:
    bus_id = normal_address(address)
    if isinstance(bus_id, Unknown):
        return None
    speeds = [speed for speed in members(row, "link_speed") if isinstance(speed, str)] or [
        word(row.get("link_speed")) or ""
    ]
    generations = {
        generation for speed in speeds[:16] if isinstance(generation := link_generation(speed), int)
    }
    width = link_width(str(row.get("link_width"))[:20])
    return ExpectedDevice(
        bus_id=bus_id,
        kind=word(row.get("type")) or "",
        name=word(row.get("dev")) or "",
        slot=word(row.get("slot")) or "",
        generations=tuple(sorted(generations)),
        width=width if isinstance(width, int) else None,
        is_critical=str(row.get("topology_critical")).lower() == "true",
    )


def _infiniband(row: dict[str, Any]) -> list[ExpectedPort]:
    rate = _RATE.match(word(row.get("link_rate")) or "")
    firmware = tuple(
        version for each in members(row, "firmware_version")[:16] if (version := word(each)) is not None
    )
    return [
        ExpectedPort(
            name=word(port.get("mlx")) or netdev,
            netdev=netdev,
            link_layer="InfiniBand",
            rate_gbps=float(rate[1]) if rate else None,
            firmware_versions=firmware,
        )
        for netdev, port in list(table(row, "interfaces").items())[:_MOST]
        if isinstance(port, dict)
    ]


def _ethernet(rows: dict[str, Any]) -> list[ExpectedPort]:
    ports: list[ExpectedPort] = []
    for slot, row in list(rows.items())[:_MOST]:
        if not isinstance(row, dict):
            continue
        netdev, speed = word(row.get("netdev")) or slot, whole(row.get("speed"))
        rate = speed / 1000 if speed is not None and 0 < speed < 1 << 31 else None
        ports.append(
            ExpectedPort(
                name=netdev, netdev=netdev, link_layer="Ethernet", rate_gbps=rate, mtu=whole(row.get("mtu"))
            )
        )
    return ports
