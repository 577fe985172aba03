"""Parse `ibnetdiscover`: the topology of an InfiniBand fabric, in full or as a list of ports (-p)."""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import FabricPort
from probes.parsers.fabric.rdma_words import guid

_NODE = re.compile(
    r"(Switch|Ca|Rt)[ \t]+(\d{1,3})[ \t]+\"([SHR]-[0-9a-fA-F]{1,16})\"[ \t]*#[ \t]*\"([^\"\n]{0,128})\".*"
)
_PORT = re.compile(
    r"\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?[ \t]+"
    r"\"([SHR]-[0-9a-fA-F]{1,16})\"\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?"
    r"[ \t]*#([^\"\n]{0,60})\"([^\"\n]{0,128})\"([^\n]{0,200})"
)
_SPEED = re.compile(r"\b(\d{1,2})x([A-Z]{3}\d{0,3}|\?\?\?)")
_LISTED = re.compile(
    r"(CA|SW|RT)[ \t]+(\d{1,5})[ \t]+(\d{1,3})[ \t]+(0x[0-9a-fA-F]{1,16})[ \t]+(\d{1,2}|\?{1,3})x[ \t]+"
    r"([A-Z]{3}\d{0,3}|\?\?\?)[ \t]+([^\n]{1,400})"
)
_PARTNER = re.compile(
    r"-[ \t]+(?:CA|SW|RT)[ \t]+\d{1,5}[ \t]+(\d{1,3})[ \t]+0x[0-9a-fA-F]{1,16}[ \t]+"
    r"\([ \t]*'([^'\n]{0,128})'[ \t]+-[ \t]+'([^'\n]{0,128})'[ \t]*\)[ \t]*"
)
_LONGEST = 800
_UNNAMED_SPEED = Unknown(Reason.UNPARSABLE, "ibnetdiscover has no name for the speed (???)")


def recognise(text: str) -> bool:
    """Return whether the text is the output of `ibnetdiscover`."""
    if '"S-' not in text and '"H-' not in text and "0x" not in text:
        return False
    return any(
        line[:2] in ("Sw", "Ca", "CA", "SW") and (_NODE.fullmatch(line) or _LISTED.fullmatch(line))
        for line in text.splitlines()
        if len(line) <= _LONGEST
    )


def parse_fabric(text: str) -> tuple[FabricPort, ...]:
    """Return the ports with a partner, and those that the output names without one."""
    ports: list[FabricPort] = []
    node: re.Match[str] | None = None
    has_port = True
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LONGEST:
            continue
        if line[:1] == "[" and node is not None:
            if (match := _PORT.match(line)) is not None:
                ports.append(_port(node, match, number))
                has_port = True
        elif (match := _NODE.fullmatch(line)) is not None:
            if not has_port and node is not None:
                ports += _isolated_port(node, start)
            node, has_port, start = match, False, number
        elif (match := _LISTED.fullmatch(line.rstrip())) is not None:
            ports.append(_listed(match, number))
    if not has_port and node is not None:
        ports += _isolated_port(node, start)
    return tuple(ports)


def _kind(word: str) -> str:
    return "switch" if word.lower().startswith("s") else "host"


def _node_guid(text: str) -> str | Unknown:
    return guid(text.partition("-")[2] or text)


def _isolated_port(node: re.Match[str], line: int) -> list[FabricPort]:
    """Return the port of a host without any link: the discovery started there and reached nothing."""
    if _kind(node[1]) == "switch":
        return []
    return [
        FabricPort(
            node=node[4], node_kind="host", port=1, guid=_node_guid(node[3]), evidence=(line_ref(line),)
        )
    ]


def _port(node: re.Match[str], match: re.Match[str], line: int) -> FabricPort:
    speed = _SPEED.search(match[6])
    return FabricPort(
        node=node[4],
        node_kind=_kind(node[1]),
        port=int(match[1]),
        peer=match[5],
        peer_port=int(match[3]),
        width=int(speed[1]) if speed else NOT_RECORDED,
        speed=_speed(speed[2]) if speed else NOT_RECORDED,
        guid=_node_guid(node[3]),
        evidence=(line_ref(line),),
    )


def _listed(match: re.Match[str], line: int) -> FabricPort:
    kind, _, port, node_guid, width, speed, rest = match.groups()
    partner = _PARTNER.fullmatch(rest)
    return FabricPort(
        node=(partner[2] if partner else rest).strip(" '\t"),
        node_kind=_kind(kind),
        port=int(port),
        peer=partner[3].strip() if partner else None,
        peer_port=int(partner[1]) if partner else None,
        width=int(width) if width.isdecimal() else NOT_RECORDED,
        speed=_speed(speed),
        guid=guid(node_guid),
        evidence=(line_ref(line),),
    )


def _speed(word: str) -> str | Unknown:
    return _UNNAMED_SPEED if word == "???" else word
