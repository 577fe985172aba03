"""Parse the tools that describe a whole InfiniBand fabric, and lists of its hosts.

`iblinkinfo` prints every link from both of its ends. `ibnetdiscover` prints the topology, in full or as a
list of ports (-p). `ibswinfo` prints parts and sensors of an unmanaged switch. A list of hosts with the node
GUIDs of their ports consists of pairs of lines: `VM_hostname NAME`, then 16 hex digits.
"""

from __future__ import annotations

import itertools
import re

from probes.base.evidence import line_ref
from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import FabricPort, FabricSwitch, states
from probes.parsers.fabric.rdma_words import guid, lane_speed

_HOST = pattern(r"(?:CA|Router):[ \t]+(.{1,128}?)[ \t]*:[ \t]*")
_SWITCH = pattern(r"Switch:?[ \t]+(0x[0-9a-fA-F]{1,16})[ \t]+(.{1,128}?)[ \t]*:[ \t]*")
_LINK = pattern(
    r"[ \t]*(?:(0x[0-9a-fA-F]{1,16})[ \t]+)?(?:\"[^\"]{0,128}\"[ \t]+)?"
    r"(\d{1,5})[ \t]+(\d{1,3})\[[^\]]{0,4}\][ \t]*"
    r"==\([ \t]*(?:(\d{1,2})X[ \t]+(\d{1,4}(?:\.\d{1,8})?)[ \t]+Gbps[ \t]+)?"
    r"([A-Za-z]{2,12})/[ \t]*([A-Za-z]{2,30})[ \t]*\)==>"
    r"[ \t]*(?:(\d{1,5})[ \t]+(\d{1,3}))?\[?[^\"\]]{0,6}\]?[ \t]*"
    r"\"([^\"]{0,128})\"[ \t]*\(([^)]{0,200})\)[ \t]*"
)
_LINKINFO_LONGEST = 800

_NODE = pattern(
    r"(Switch|Ca|Rt)[ \t]+(\d{1,3})[ \t]+\"([SHR]-[0-9a-fA-F]{1,16})\"[ \t]*#[ \t]*\"([^\"\n]{0,128})\".*"
)
_PORT = pattern(
    r"\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?[ \t]+"
    r"\"([SHR]-[0-9a-fA-F]{1,16})\"\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?"
    r"[ \t]*#([^\"\n]{0,60})\"([^\"\n]{0,128})\"([^\n]{0,200})"
)
_SPEED = pattern(r"\b(\d{1,2})x([A-Z]{3}\d{0,3}|\?\?\?)")
_LISTED = pattern(
    r"(CA|SW|RT)[ \t]+(\d{1,5})[ \t]+(\d{1,3})[ \t]+(0x[0-9a-fA-F]{1,16})[ \t]+(\d{1,2}|\?{1,3})x[ \t]+"
    r"([A-Z]{3}\d{0,3}|\?\?\?)[ \t]+([^\n]{1,400})"
)
_PARTNER = pattern(
    r"-[ \t]+(?:CA|SW|RT)[ \t]+\d{1,5}[ \t]+(\d{1,3})[ \t]+0x[0-9a-fA-F]{1,16}[ \t]+"
    r"\([ \t]*'([^'\n]{0,128})'[ \t]+-[ \t]+'([^'\n]{0,128})'[ \t]*\)[ \t]*"
)
_DISCOVER_LONGEST = 800
_UNNAMED_SPEED = Unknown(Reason.UNPARSABLE, "ibnetdiscover has no name for the speed (???)")

_FIELD = pattern(r"[ \t]{0,10}([A-Za-z][\w#()./ -]{0,30}?)[ \t]{1,30}\|[ \t]*([^|\n]{0,120})")
_SUPPLY = pattern(r"PSU(\d{1,2}) status")
_FAN = pattern(r"fan#(\d{1,3}) \(rpm\)")
_RULE = pattern(r"={10,200}")
_TEMPERATURE = pattern(r"-?\d{1,3}")

_NAME = pattern(r"(?:VM_)?hostname[ \t:]+([\w.-]{1,255})[ \t]*", re.IGNORECASE)
_GUID = pattern(r"[ \t]*(?:0x)?([0-9a-fA-F]{16})[ \t]*")


def recognise_iblinkinfo(text: str) -> bool:
    return "==(" in text and any(_match(line) for line in text.splitlines())


def parse_iblinkinfo(text: str) -> tuple[FabricPort, ...]:
    """Return the ports that are up or have a partner.

    A switch's port that is down without a partner has no cable, so it is left out.
    """
    ports: list[FabricPort] = []
    node, kind, node_guid = "", "switch", ""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LINKINFO_LONGEST:
            continue
        if (host := _HOST.fullmatch(line.strip())) is not None:
            node, kind, node_guid = host[1], "host", ""
        elif (switch := _SWITCH.fullmatch(line.strip())) is not None:
            node, kind, node_guid = switch[2], "switch", switch[1]
        elif (match := _match(line)) is not None and node:
            ports += _linkinfo_port(node, kind, match, node_guid, number)
    return tuple(ports)


def _match(line: str) -> re.Match[str] | None:
    return _LINK.fullmatch(line) if "==(" in line and len(line) <= _LINKINFO_LONGEST else None


def _linkinfo_port(node: str, kind: str, match: re.Match[str], node_guid: str, line: int) -> list[FabricPort]:
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


def recognise_ibnetdiscover(text: str) -> bool:
    if '"S-' not in text and '"H-' not in text and "0x" not in text:
        return False
    return any(
        line[:2] in ("Sw", "Ca", "CA", "SW") and (_NODE.fullmatch(line) or _LISTED.fullmatch(line))
        for line in text.splitlines()
        if len(line) <= _DISCOVER_LONGEST
    )


def parse_ibnetdiscover(text: str) -> tuple[FabricPort, ...]:
    """Return the ports with a partner, and those that the output names without one."""
    ports: list[FabricPort] = []
    node: re.Match[str] | None = None
    has_port = True
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _DISCOVER_LONGEST:
            continue
        if line[:1] == "[" and node is not None:
            if (match := _PORT.match(line)) is not None:
                ports.append(_discover_port(node, match, number))
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


def _discover_port(node: re.Match[str], match: re.Match[str], line: int) -> FabricPort:
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


def recognise_ibswinfo(text: str) -> bool:
    return "part number " in text and "|" in text and bool(_values_of(text.splitlines()))


def parse_switches(text: str) -> tuple[FabricSwitch, ...]:
    """Return the switches; values that a switch leaves empty are unknown.

    States are in the tool's words (`OK`, `ERROR`).
    """
    switches: list[FabricSwitch] = []
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("part number ")]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        values = _values_of(lines[start:end])
        if values:
            switches.append(_switch(_title(lines, start), values, start + 1))
    return tuple(switches)


def _title(lines: list[str], start: int) -> str:
    """Return the description of the node, which is printed between two rules above its first field."""
    above = [line.strip() for line in lines[max(0, start - 3) : start]]
    return next((line for line in above if line and not _RULE.fullmatch(line)), "")


def _values_of(lines: list[str]) -> list[tuple[str, str]]:
    fields = [
        (match[1].strip(), match[2].strip())
        for line in lines
        if (match := _FIELD.fullmatch(line)) is not None
    ]
    return fields if any(name == "part number" for name, _ in fields) else []


def _switch(title: str, values: list[tuple[str, str]], line: int) -> FabricSwitch:
    # The first of several equal fields counts, so it is inserted last.
    single = dict(reversed([pair for pair in values if pair[1]]))
    supplies: dict[str, str] = {}
    fans: dict[str, str] = {}
    supply = ""
    for name, value in values:
        if (match := _SUPPLY.fullmatch(name)) is not None:
            supply = f"PSU{match[1]}"
            if value:
                supplies[supply] = value
        elif name == "fan status" and value:
            # Among the lines of a power supply, this is the supply's own fan.
            if supply:
                supplies[f"{supply} fan"] = value
            else:
                fans["all"] = value
        elif name == "DC power" and supply and value:
            supplies[f"{supply} DC power"] = value
        elif name.startswith(("temperature", "max temp")):
            supply = ""
        elif (fan := _FAN.fullmatch(name)) is not None:
            supply = ""
            if value:
                fans[f"fan{fan[1]}"] = f"{value} rpm" if value.isdecimal() else value
    temperature = _TEMPERATURE.fullmatch(single.get("temperature (C)", ""))
    return FabricSwitch(
        name=title or single.get("product name", NOT_RECORDED),
        part_number=single.get("part number", NOT_RECORDED),
        firmware_version=single.get("firmware version", NOT_RECORDED),
        temperature_c=int(temperature[0]) if temperature else NOT_RECORDED,
        power_supplies=states(supplies) if supplies else _none("power supply"),
        fans=states(fans) if fans else _none("fan"),
        evidence=(line_ref(line),),
    )


def _none(what: str) -> Unknown:
    return Unknown(NOT_RECORDED.reason, f"no {what} in the output of ibswinfo")


def recognise_guid_list(text: str) -> bool:
    """Return whether the text is such a list and nothing else."""
    lines = [line for line in text[:200_000].splitlines() if line.strip()]
    named = any(_NAME.fullmatch(line) for line in lines[:1])
    return (
        named
        and len(lines) > 1
        and all(_NAME.fullmatch(line) or _GUID.fullmatch(line) for line in lines[:-1])
    )


def hosts_by_guid(text: str) -> dict[str, str]:
    """Return the host of each node GUID."""
    hosts: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if (match := _NAME.fullmatch(line)) is not None:
            name = match[1]
        elif (match := _GUID.fullmatch(line)) is not None and name:
            node = guid(match[1])
            if not isinstance(node, Unknown):
                hosts.setdefault(node, name)
    return hosts
