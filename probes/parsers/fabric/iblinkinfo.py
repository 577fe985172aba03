"""Parse `iblinkinfo`: every link of an InfiniBand fabric, printed from both of its ends."""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Unknown
from probes.facts import FabricPort
from probes.parsers.fabric.rdma_words import guid, lane_speed

_HOST = re.compile(r"(?:CA|Router):[ \t]+(.{1,128}?)[ \t]*:[ \t]*")
_SWITCH = re.compile(r"Switch:?[ \t]+(0x[0-9a-fA-F]{1,16})[ \t]+(.{1,128}?)[ \t]*:[ \t]*")
_LINK = re.compile(
    r"[ \t]*(?:(0x[0-9a-fA-F]{1,16})[ \t]+)?(?:\"[^\"]{0,128}\"[ \t]+)?"
    r"(\d{1,5})[ \t]+(\d{1,3})\[[^\]]{0,4}\][ \t]*"
    r"==\([ \t]*(?:(\d{1,2})X[ \t]+(\d{1,4}(?:\.\d{1,8})?)[ \t]+Gbps[ \t]+)?"
    r"([A-Za-z]{2,12})/[ \t]*([A-Za-z]{2,30})[ \t]*\)==>"
    r"[ \t]*(?:(\d{1,5})[ \t]+(\d{1,3}))?\[?[^\"\]]{0,6}\]?[ \t]*"
    r"\"([^\"]{0,128})\"[ \t]*\(([^)]{0,200})\)[ \t]*"
)
_LONGEST = 800


def recognise(text: str) -> bool:
    """Return whether the text is the output of `iblinkinfo`."""
    return "==(" in text and any(_match(line) for line in text.splitlines())


def parse_fabric(text: str) -> tuple[FabricPort, ...]:
    """Return the ports that are up or have a partner.

    A switch's port that is down without a partner has no cable, so it is left out.
    """
    ports: list[FabricPort] = []
    node, kind, node_guid = "", "switch", ""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LONGEST:
            continue
        if (host := _HOST.fullmatch(line.strip())) is not None:
            node, kind, node_guid = host[1], "host", ""
        elif (switch := _SWITCH.fullmatch(line.strip())) is not None:
            node, kind, node_guid = switch[2], "switch", switch[1]
        elif (match := _match(line)) is not None and node:
            ports += _port(node, kind, match, node_guid, number)
    return tuple(ports)


def _match(line: str) -> re.Match[str] | None:
    return _LINK.fullmatch(line) if "==(" in line and len(line) <= _LONGEST else None


def _port(node: str, kind: str, match: re.Match[str], node_guid: str, line: int) -> list[FabricPort]:
    port_guid, _, port, width, speed, state, _, _, peer_port, peer, remark = match.groups()
    if not peer and state.lower() == "down" and kind == "switch":
        return []
    known_guid = guid(node_guid or port_guid or "")
    return [
        FabricPort(
            node=node,
            node_kind=kind,
            port=int(port),
            peer=peer or None,
            peer_port=int(peer_port) if peer and peer_port else None,
            width=int(width) if width else NOT_RECORDED,
            speed=lane_speed(float(speed)) if speed else NOT_RECORDED,
            could_be=remark.strip() or None,
            guid=NOT_RECORDED if isinstance(known_guid, Unknown) else known_guid,
            evidence=(line_ref(line),),
        )
    ]
