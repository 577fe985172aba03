"""Parse `ibdev2netdev`, plain or with -v."""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Unknown
from probes.facts import Nic
from probes.parsers.fabric.rdma_words import port_state
from probes.parsers.topology.pci_addresses import normal_address

_LINE = re.compile(
    r"[ \t]*(?:([0-9a-f:]{5,13}\.[0-7])[ \t]+)?([A-Za-z][\w.-]{0,63})[ \t]+"
    r"(?:\(([^)\n]{1,60})\)[ \t]([^\n]{1,300}?)[ \t])?"
    r"port[ \t]+(\d{1,3})[ \t]+(?:\(([A-Z_ ]{2,20})\)[ \t]*)?"
    r"==>[ \t]*(\S{1,64})[ \t]*\((Up|Down)\)[ \t]*(?:#.*)?",
    re.IGNORECASE,
)
_FIRMWARE = re.compile(r"\bfw ([\w.]{3,30})")
_LONGEST = 600


def recognise(text: str) -> bool:
    """Return whether the text is the output of `ibdev2netdev`."""
    return "==>" in text and any(_match(line) for line in text.splitlines())


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports with their network interfaces; with -v also PCI address, type and firmware."""
    matches = ((number, _match(line)) for number, line in enumerate(text.splitlines(), 1))
    return tuple(_nic(number, match) for number, match in matches if match is not None)


def _match(line: str) -> re.Match[str] | None:
    return _LINE.fullmatch(line) if "==>" in line and len(line) <= _LONGEST else None


def _nic(line: int, match: re.Match[str]) -> Nic:
    address, name, part, words, port, state, netdev, updown = match.groups()
    firmware = _FIRMWARE.search(words or "")
    bus_id = normal_address(address) if address else NOT_RECORDED
    return Nic(
        name=name,
        port=int(port),
        state=port_state(state) if state else NOT_RECORDED,
        device_type=part.partition(" ")[0] if part else NOT_RECORDED,
        firmware_version=firmware[1] if firmware else NOT_RECORDED,
        pci_bus_id=NOT_RECORDED if isinstance(bus_id, Unknown) else bus_id,
        netdev=netdev,
        netdev_up=updown.lower() == "up",
        evidence=(line_ref(line),),
    )
