"""Collect network interfaces with their addresses, bonds and the default route; also from given texts."""

import msgspec

from probes.base.record import (
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    command_ref,
    file_ref,
    items_of,
    map_known,
    value_or,
    when_missing,
)
from probes.collect.collecting import CollectOptions
from probes.facts import Interface, Unread
from probes.parsers.host.network_files import (
    addresses_by_route,
    default_interface,
    local_addresses,
    parse_bonding,
    parse_default_ipv6,
    parse_ip_addresses,
    parse_routes,
)
from probes.reading.pci import DEVICES, address_of, interface_is_up, names_below_pci
from probes.sources.base import Source, read_int, read_text

_CLASS = "/sys/class/net"
_BONDING = "/proc/net/bonding"
_ROUTE = "/proc/net/route"
_ROUTE_V6 = "/proc/net/ipv6_route"
_FIB_TRIE = "/proc/net/fib_trie"
_IP_ADDR = ("ip", "-j", "addr")
_KIND = "interfaces"
_TOPOLOGY = "nccl-topology"
"""Kind of text that lists the interfaces that NCCL would use for TCP."""


class _Addresses(Record, kw_only=True):
    by_interface: dict[str, tuple[str, ...]]
    when_absent: tuple[str, ...] | Unknown
    """Addresses of interfaces that are not listed: an empty tuple, or Unknown."""
    evidence: EvidenceRef


class _Place(Record, kw_only=True):
    """An interface and the folder of its files."""

    name: str
    folder: str
    bond: str | None = None


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `interfaces` in the order of their names; interfaces from given texts come last."""
    of_kernel = map_known(_places(source), lambda places: _interfaces(source, places))
    if not source.given(_KIND) and not source.given(_TOPOLOGY):
        return {"interfaces": of_kernel}
    return _with_texts(source, of_kernel)


def _interfaces(source: Source, places: tuple[_Place, ...]) -> tuple[Interface, ...]:
    routes = read_text(source, _ROUTE)
    addresses = _addresses(source, routes)
    default = _default_interface(source, routes)
    return tuple(_interface(source, place, addresses, default) for place in places)


def _with_texts(source: Source, of_kernel: tuple[Interface, ...] | Unknown) -> dict[str, object]:
    # Only given texts need these modules.
    from probes.parsers.fabric import ip_json  # noqa: PLC0415
    from probes.parsers.topology import nccl_topology  # noqa: PLC0415
    from probes.reading.merging import merge_interfaces  # noqa: PLC0415

    groups = [items_of(of_kernel)]
    unread: list[Unread] = []
    for kind, parse in ((_KIND, ip_json.parse_interfaces), (_TOPOLOGY, nccl_topology.parse_interfaces)):
        for given in source.given(kind):
            parsed = parse(given.text)
            if isinstance(parsed, Unknown):
                unread.append(Unread(source=given.name, why=parsed.detail))
                continue
            evidence = (EvidenceRef(source="paste", key=given.name),)
            groups.append(tuple(msgspec.structs.replace(row, evidence=evidence) for row in parsed))
    interfaces, contradictions = merge_interfaces(groups)
    answer = of_kernel if isinstance(of_kernel, Unknown) and not interfaces else interfaces
    return {"interfaces": answer, "contradictions": contradictions, "unread": tuple(unread)}


def _places(source: Source) -> tuple[_Place, ...] | Unknown:
    """Return the interfaces of the class folder, and bond members that only their bond's folder shows.

    The latter may belong to another container.
    """
    names = source.names(_CLASS)
    if isinstance(names, Unknown):
        return _below_pci(source) or names
    real = [name for name in names if name != "bonding_masters"]  # a control file in the folder of interfaces
    places = {name: _Place(name=name, folder=f"{_CLASS}/{name}") for name in real}
    bonded = ((bond, member) for bond in real for member in _members(source, f"{_CLASS}/{bond}") or ())
    for bond, member in bonded:
        shown = f"{_CLASS}/{bond}/slave_{member}"
        own = f"{_CLASS}/{member}"
        is_own = member in places and not isinstance(source.names(own), Unknown)
        places[member] = _Place(name=member, folder=own if is_own else shown, bond=bond)
    return tuple(places[name] for name in sorted(places))


def _below_pci(source: Source) -> tuple[_Place, ...]:
    """Return the interfaces of a copy of /sys without the class folder."""
    return tuple(_Place(name=name, folder=folder) for name, folder, _ in names_below_pci(source, "net"))


def _members(source: Source, folder: str) -> tuple[str, ...] | None:
    """Return the members of a bond; None for other interfaces."""
    text = read_text(source, f"{folder}/bonding/slaves")
    return None if isinstance(text, Unknown) else tuple(text.split())


def _interface(
    source: Source, place: _Place, addresses: _Addresses, default: str | Unknown | None
) -> Interface:
    name, folder = place.name, place.folder
    return Interface(
        name=name,
        up=interface_is_up(source, folder),
        speed_gbps=_speed_gbps(source, folder),
        mtu=read_int(source, f"{folder}/mtu"),
        addresses=addresses.by_interface.get(name, addresses.when_absent),
        is_virtual=map_known(source.link(folder), lambda path: path.startswith("/sys/devices/virtual/")),
        is_default_route=map_known(default, lambda default: name == default),
        bond=place.bond,
        bond_members=_members(source, folder),
        carrier_changes=read_int(source, f"{folder}/carrier_changes"),
        duplex=read_text(source, f"{folder}/duplex"),
        link_seen_by_bond=_link_seen_by_bond(source, place),
        pci_bus_id=_pci_bus_id(source, folder),
        evidence=(file_ref(folder), addresses.evidence, file_ref(_ROUTE)),
    )


def _pci_bus_id(source: Source, folder: str) -> str | Unknown | None:
    """Return the PCI device of an interface; None if it has none."""
    if folder.startswith(DEVICES):
        return folder.removeprefix(f"{DEVICES}/").partition("/")[0]
    path = when_missing(source.link(f"{folder}/device"), None)
    if path is None or isinstance(path, Unknown):
        return path
    # A paravirtual device is a child of its PCI device.
    address = address_of(path)
    return address if isinstance(address, str) else address_of(path.rpartition("/")[0])


def _link_seen_by_bond(source: Source, place: _Place) -> bool | Unknown | None:
    if place.bond is None:
        return None
    status = read_text(source, f"{place.folder}/bonding_slave/mii_status")
    if not isinstance(status, Unknown):
        return status == "up"
    members = map_known(read_text(source, f"{_BONDING}/{place.bond}"), parse_bonding)
    return value_or(members, {}).get(place.name, status)


def _speed_gbps(source: Source, folder: str) -> float | Unknown:
    """Return the speed in Gb/s.

    The unit in sysfs is Mb/s; -1, an error, or a value with all bits set means no link or an unknown speed.
    """
    speed = read_int(source, f"{folder}/speed")
    no_speed = Unknown(Reason.NOT_SUPPORTED, f"{folder}/speed says {speed}")
    return map_known(speed, lambda speed: speed / 1000 if 0 < speed < 1 << 31 else no_speed)


def _addresses(source: Source, routes: str | Unknown) -> _Addresses:
    """Return the addresses that `ip` reports.

    Without `ip`, return the IPv4 addresses in the kernel's routing table.
    """
    by_command = map_known(source.run(_IP_ADDR).text(), parse_ip_addresses)
    if not isinstance(by_command, Unknown):
        return _Addresses(by_interface=by_command, when_absent=(), evidence=command_ref(_IP_ADDR))
    trie = read_text(source, _FIB_TRIE)
    if isinstance(trie, Unknown) or isinstance(routes, Unknown):
        return _Addresses(by_interface={}, when_absent=by_command, evidence=command_ref(_IP_ADDR))
    by_route = addresses_by_route(local_addresses(trie), parse_routes(routes))
    return _Addresses(by_interface=by_route, when_absent=by_command, evidence=file_ref(_FIB_TRIE))


def _default_interface(source: Source, routes: str | Unknown) -> str | Unknown | None:
    by_ipv4 = map_known(routes, lambda routes: default_interface(parse_routes(routes)))
    if isinstance(by_ipv4, str):
        return by_ipv4
    by_ipv6 = map_known(read_text(source, _ROUTE_V6), parse_default_ipv6)
    return by_ipv6 if isinstance(by_ipv6, str) else by_ipv4
