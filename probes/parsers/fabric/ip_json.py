"""Parse network interfaces: `ip addr`, `ip -j addr`, and collections that contain the latter.

A collection adds speeds, LLDP neighbours, and the host's network configuration. It is a JSON object with a
list of interfaces (each with `ifname`) under any name, LLDP neighbours (`lldp`, as `lldpctl -f json` writes
them), speeds in Mb/s and hardware addresses by interface, and settings of ifcfg files by interface.
"""

import re
from typing import Any, NamedTuple

import msgspec

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Interface

_TEXT_HEAD = re.compile(
    r"(\d{1,6}): ([\w.:-]{1,32})(?:@([\w.:-]{1,32}))?: <([A-Z0-9_,-]{0,200})> mtu (\d{1,6})\b(.{0,400})"
)
_TEXT_ADDRESS = re.compile(r"[ \t]+inet6? ([0-9a-fA-F.:]{2,45}/\d{1,3})\b.*")
_MASTER = re.compile(r"\bmaster (\S{1,32})")
_STATE = re.compile(r"\bstate ([A-Z]{2,20})\b")
_VIRTUAL_KINDS = frozenset(
    {"bond", "bridge", "vlan", "veth", "vxlan", "dummy", "tun", "macvlan", "ipvlan", "team", "ipip"}
)
_MAX_MBPS = 10_000_000
_ABSENT = Unknown(Reason.ERROR, "the collection names it, but the kernel lists no such interface")


def recognise(text: str) -> bool:
    """Return whether the text lists network interfaces.

    Only texts that begin like JSON are decoded, so that the decision stays fast.
    """
    start = text.lstrip()[:1]
    if start in ("[", "{"):
        return '"ifname"' in text and bool(_interfaces_of(_decoded(text)))
    return "mtu " in text and any(_TEXT_HEAD.match(line) for line in text.splitlines())


def parse_interfaces(text: str) -> tuple[Interface, ...] | Unknown:
    """Return the interfaces with all facts in the text; Unknown if the text contains no interface."""
    if text.lstrip()[:1] not in ("[", "{"):
        return _from_text(text) or Unknown(Reason.UNPARSABLE, "no interface in the text")
    data = _decoded(text)
    rows = _interfaces_of(data)
    if not rows:
        return Unknown(Reason.UNPARSABLE, "no interface in the JSON")
    extras = data if isinstance(data, dict) else {}
    members = grouped(
        (bond, row["ifname"]) for row in rows if isinstance(bond := row.get("master", row.get("main")), str)
    )
    collection = _Collection(
        members,
        _speeds(extras),
        _neighbours(extras),
        _text_table(extras, "phys_macaddr"),
        _configured(extras),
    )
    present = {row["ifname"] for row in rows}
    # A collection may name interfaces that the kernel does not show.
    names = dict.fromkeys((*collection.hardware, *collection.configured))
    absent = (_absent(name, collection.configured.get(name)) for name in names if name not in present)
    return (*(_interface(row, collection) for row in rows), *absent)


class _Collection(NamedTuple):
    """Contents of a collection other than the rows of `ip`, by interface."""

    members: dict[str, list[str]]
    """Members of each bond."""
    speeds: dict[str, float]
    """Speed in Gb/s."""
    neighbours: dict[str, str]
    hardware: dict[str, str]
    """Hardware addresses."""
    configured: dict[str, dict[str, str]]


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _interfaces_of(data: object) -> list[dict[str, Any]]:
    """Return the rows of `ip`: the data itself, or a member of the data."""
    for candidate in (data, *(data.values() if isinstance(data, dict) else ())):
        if isinstance(candidate, list):
            rows = [
                row
                for row in candidate
                if isinstance(row, dict) and isinstance(row.get("ifname"), str) and row["ifname"]
            ]
            if rows:
                return rows
    return []


def _interface(row: dict[str, Any], collection: _Collection) -> Interface:
    name = row["ifname"]
    flags = [flag for flag in _listed(row, "flags") if isinstance(flag, str)]
    info = row.get("linkinfo")
    kind = info.get("info_kind") if isinstance(info, dict) else None
    settings = collection.configured.get(name)
    is_bond = name in collection.members or "MASTER" in flags or kind == "bond"
    bond = row.get("master", row.get("main"))
    return Interface(
        name=name,
        up=_up(row.get("operstate"), flags),
        speed_gbps=collection.speeds.get(name, NOT_RECORDED),
        mtu=_number(row.get("mtu")),
        addresses=tuple(address for info in _listed(row, "addr_info") if (address := _address(info))),
        is_virtual=True
        if is_bond or row.get("link_type") == "loopback" or kind in _VIRTUAL_KINDS
        else NOT_RECORDED,
        bond=bond if isinstance(bond, str) and ("SLAVE" in flags or kind != "bridge") else None,
        bond_members=tuple(collection.members.get(name, ())) if is_bond else None,
        mtu_configured=_number(_as_int(settings.get("MTU", ""))) if settings else NOT_RECORDED,
        bond_configured=settings.get("MASTER") if settings else NOT_RECORDED,
        configured_name=_configured_name(name, collection),
        neighbour=collection.neighbours.get(name) if collection.neighbours else NOT_RECORDED,
    )


def _absent(name: str, settings: dict[str, str] | None) -> Interface:
    bond = settings.get("MASTER") if settings else NOT_RECORDED
    return Interface(name=name, up=_ABSENT, bond_configured=bond)


def _up(state: object, flags: list[str]) -> bool | Unknown:
    """Return whether the interface is up.

    Drivers without carrier detection report UNKNOWN; then the administrator's flag is used.
    """
    if isinstance(state, str) and state.upper() != "UNKNOWN":
        return state.upper() == "UP"
    return "UP" in flags if flags else NOT_RECORDED


def _address(info: object) -> str:
    match info:
        case {"local": str(local), "prefixlen": int(length)} if local:
            return f"{local}/{length}"
        case {"local": str(local)}:
            return local
    return ""


def _listed(row: dict[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    return value if isinstance(value, list) else []


def _number(value: object) -> int | Unknown:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31
        else NOT_RECORDED
    )


def _as_int(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _text_table(extras: dict[str, Any], name: str) -> dict[str, str]:
    table = extras.get(name)
    return (
        {key: value for key, value in table.items() if isinstance(value, str)}
        if isinstance(table, dict)
        else {}
    )


def _speeds(extras: dict[str, Any]) -> dict[str, float]:
    mbps_by_name = {name: _as_int(text) for name, text in _text_table(extras, "link_speed").items()}
    return {name: mbps / 1000 for name, mbps in mbps_by_name.items() if 0 < mbps < _MAX_MBPS}


def _configured(extras: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the settings by interface, without the entries of files that could not be read."""
    files = extras.get("intf_ifcfg")
    if not isinstance(files, dict):
        return {}
    return {
        name: {key: value.strip("\"'") for key, value in settings.items() if isinstance(value, str)}
        for name, settings in files.items()
        if isinstance(settings, dict)
    }


def _configured_name(name: str, collection: _Collection) -> str | Unknown:
    """Return the interface whose configuration contains the hardware address of interface `name`.

    If several configurations contain the address, the configuration of `name` itself is preferred.
    """
    own = collection.hardware.get(name, "").lower()
    owners = [
        other
        for other, settings in collection.configured.items()
        if own and settings.get("HWADDR", "").lower() == own
    ]
    return name if name in owners else next(iter(owners), NOT_RECORDED)


def _neighbours(extras: dict[str, Any]) -> dict[str, str]:
    """Return switch and port by interface; lldpctl writes a list, or an object if there is only one."""
    status = extras.get("lldp_status", extras)
    lldp = status.get("lldp") if isinstance(status, dict) else None
    interfaces = lldp.get("interface") if isinstance(lldp, dict) else None
    neighbours: dict[str, str] = {}
    for entry in interfaces if isinstance(interfaces, list) else [interfaces]:
        for name, details in entry.items() if isinstance(entry, dict) else ():
            if isinstance(details, dict):
                neighbours.setdefault(name, _neighbour(details))
    return neighbours


def _neighbour(details: dict[str, Any]) -> str:
    chassis, value = details.get("chassis"), ""
    switch = next((name for name in chassis if name != "id"), "") if isinstance(chassis, dict) else ""
    match details.get("port"):
        case {"id": {"value": str(value)}}:
            pass
    return " ".join(part for part in (switch, value) if part)


def _from_text(text: str) -> tuple[Interface, ...]:
    blocks: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        if (match := _TEXT_HEAD.match(line)) is not None:
            blocks.append((match, []))
        elif blocks and (address := _TEXT_ADDRESS.fullmatch(line[:400])) is not None:
            blocks[-1][1].append(address[1])
    members = grouped(
        (bond[1], match[2]) for match, _ in blocks if (bond := _MASTER.search(match[6])) is not None
    )
    return tuple(_text_interface(match, addresses, members) for match, addresses in blocks)


def _text_interface(match: re.Match[str], addresses: list[str], members: dict[str, list[str]]) -> Interface:
    _, name, _, flag_text, mtu, rest = match.groups()
    flags = flag_text.split(",")
    state, bond = _STATE.search(rest), _MASTER.search(rest)
    is_bond = "MASTER" in flags
    return Interface(
        name=name,
        up=_up(state[1] if state else None, flags),
        mtu=_number(int(mtu)),
        addresses=tuple(addresses),
        is_virtual=True if is_bond or "LOOPBACK" in flags else NOT_RECORDED,
        bond=bond[1] if bond and "SLAVE" in flags else None,
        bond_members=tuple(members.get(name, ())) if is_bond else None,
    )
