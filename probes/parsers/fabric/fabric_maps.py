"""Parse the tools that describe a whole InfiniBand fabric, and lists of its hosts.

`iblinkinfo` prints every link from both of its ends. `ibnetdiscover` prints the topology, in full or as a
list of ports (-p). `ibswinfo` prints parts and sensors of an unmanaged switch. A list of hosts with the node
GUIDs of their ports consists of pairs of lines: `VM_hostname NAME`, then 16 hex digits.
"""

import itertools
import re
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref, value_or
from probes.facts import FabricPort, FabricSwitch, states
from probes.parsers.fabric.rdma_words import guid, lane_speed, or_missing

_HOST = pattern(r"(?:CA|Router):[ \t]+(.{1,128}?)[ \t]*:[ \t]*")
_SWITCH = pattern(r"Switch:?[ \t]+(0x[0-9a-fA-F]{1,16})[ \t]+(.{1,128}?)[ \t]*:[ \t]*")
_LINK = pattern(
    r"[ \t]*(?:(?P<guid>0x[0-9a-fA-F]{1,16})[ \t]+)?(?:\"[^\"]{0,128}\"[ \t]+)?"
    r"(\d{1,5})[ \t]+(?P<port>\d{1,3})\[[^\]]{0,4}\][ \t]*"
    r"==\([ \t]*(?:(?P<width>\d{1,2})X[ \t]+(?P<speed>\d{1,4}(?:\.\d{1,8})?)[ \t]+Gbps[ \t]+)?"
    r"(?P<state>[A-Za-z]{2,12})/[ \t]*([A-Za-z]{2,30})[ \t]*\)==>"
    r"[ \t]*(?:(\d{1,5})[ \t]+(?P<peer_port>\d{1,3}))?\[?[^\"\]]{0,6}\]?[ \t]*"
    r"\"(?P<peer>[^\"]{0,128})\"[ \t]*\((?P<remark>[^)]{0,200})\)[ \t]*"
)
_LONGEST_LINE = 800

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
    """Return the ports that have a partner or are not down, and all ports of hosts."""
    ports: list[FabricPort] = []
    node, kind, node_guid = "", "switch", ""
    for number, line in _numbered(text):
        if (host := _HOST.fullmatch(line.strip())) is not None:
            node, kind, node_guid = host[1], "host", ""
        elif (switch := _SWITCH.fullmatch(line.strip())) is not None:
            node, kind, node_guid = switch[2], "switch", switch[1]
        elif (match := _match(line)) is not None and node:
            # A switch's port that is down without a partner has no cable.
            is_used = match["peer"] or match["state"].lower() != "down" or kind != "switch"
            ports += [_linkinfo_port(node, kind, match, node_guid, number)] if is_used else []
    return tuple(ports)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines that are short enough to be parsed, with line numbers from 1."""
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if len(line) <= _LONGEST_LINE)


def _match(line: str) -> re.Match[str] | None:
    return _LINK.fullmatch(line) if "==(" in line and len(line) <= _LONGEST_LINE else None


def _linkinfo_port(node: str, kind: str, match: re.Match[str], node_guid: str, line: int) -> FabricPort:
    return FabricPort(
        node=node,
        node_kind=kind,
        port=int(match["port"]),
        peer=match["peer"] or None,
        peer_port=int(match["peer_port"]) if match["peer"] and match["peer_port"] else None,
        width=int(match["width"]) if match["width"] else NOT_RECORDED,
        speed=lane_speed(float(match["speed"])) if match["speed"] else NOT_RECORDED,
        could_be=match["remark"].strip() or None,
        guid=or_missing(guid(node_guid or match["guid"] or "")),
        evidence=(line_ref(line),),
    )


def recognise_ibnetdiscover(text: str) -> bool:
    if '"S-' not in text and '"H-' not in text and "0x" not in text:
        return False
    return any(
        line[:2] in ("Sw", "Ca", "CA", "SW") and (_NODE.fullmatch(line) or _LISTED.fullmatch(line))
        for line in text.splitlines()
        if len(line) <= _LONGEST_LINE
    )


def parse_ibnetdiscover(text: str) -> tuple[FabricPort, ...]:
    """Return the ports with a partner, and the ports that the output names without a partner."""
    ports: list[FabricPort] = []
    node: re.Match[str] | None = None
    isolated: list[FabricPort] = []
    for number, line in _numbered(text):
        if line[:1] == "[" and node is not None:
            if (match := _PORT.match(line)) is not None:
                ports.append(_discover_port(node, match, number))
                isolated = []
        elif (match := _NODE.fullmatch(line)) is not None:
            ports += isolated
            node, isolated = match, [_isolated_port(match, number)] if _kind(match[1]) == "host" else []
        elif (match := _LISTED.fullmatch(line.rstrip())) is not None:
            ports.append(_listed(match, number))
    return (*ports, *isolated)


def _kind(word: str) -> str:
    return "switch" if word.lower().startswith("s") else "host"


def _node_guid(text: str) -> str | Unknown:
    return guid(text.partition("-")[2] or text)


def _isolated_port(node: re.Match[str], line: int) -> FabricPort:
    """Return the port of a host without links: the discovery started here and reached no other node."""
    return FabricPort(
        node=node[4], node_kind="host", port=1, guid=_node_guid(node[3]), evidence=(line_ref(line),)
    )


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

    States are given as the tool prints them (`OK`, `ERROR`).
    """
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("part number ")]
    return tuple(
        _switch(_title(lines, start), values, start + 1)
        for start, end in itertools.pairwise([*starts, len(lines)])
        if (values := _values_of(lines[start:end]))
    )


def _title(lines: list[str], start: int) -> str:
    """Return the description of the node, between two lines of equals signs above the first field."""
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
    # The pairs are reversed, so that the first value remains if a field occurs several times.
    single = dict(reversed([pair for pair in values if pair[1]]))
    supplies: dict[str, str] = {}
    fans: dict[str, str] = {}
    supply = ""
    for name, value in values:
        if (match := _SUPPLY.fullmatch(name)) is not None:
            supply = f"PSU{match[1]}"
            if value:
                supplies[supply] = value
        elif name == "fan status" and value and supply:
            supplies[f"{supply} fan"] = value
        elif name == "fan status" and value:
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
    """Return whether the text contains only a list of hosts and GUIDs."""
    first, *others = [line for line in text[:200_000].splitlines() if line.strip()] or [""]
    has_name = others and _NAME.fullmatch(first) is not None
    return bool(has_name) and all(_NAME.fullmatch(line) or _GUID.fullmatch(line) for line in others[:-1])


def hosts_by_guid(text: str) -> dict[str, str]:
    """Return the host of each node GUID."""
    hosts: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if (match := _NAME.fullmatch(line)) is not None:
            name = match[1]
        elif (match := _GUID.fullmatch(line)) is not None and name:
            hosts.setdefault(value_or(guid(match[1]), ""), name)
    return hosts
