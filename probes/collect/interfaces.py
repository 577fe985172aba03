"""Collect network interfaces with their addresses, bonds and the default route; also from given texts."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import EvidenceRef, Reason, Record, Unknown, items_of, map_known, when_missing
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
from probes.reading.pci import DEVICES, address_of
from probes.sources.base import Source, read_int, read_text

_CLASS = "/sys/class/net"
_BONDING = "/proc/net/bonding"
_ROUTE = "/proc/net/route"
_ROUTE_V6 = "/proc/net/ipv6_route"
_FIB_TRIE = "/proc/net/fib_trie"
_IP_ADDR = ("ip", "-j", "addr")
_IFF_UP = 0x1
_KIND = "interfaces"
_TOPOLOGY = "nccl-topology"
"""Kind of text that names the interfaces that NCCL would use for TCP."""


class _Addresses(Record, kw_only=True):
    by_interface: dict[str, tuple[str, ...]] | Unknown
    when_absent: tuple[str, ...] | Unknown
    """Addresses of an interface that is not listed: none, or unknown."""
    evidence: EvidenceRef


class _Place(Record, kw_only=True):
    """An interface and the folder of its files."""

    name: str
    folder: str
    bond: str | None = None


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `interfaces` in the order of their names; those of given texts come last."""
    places = _places(source)
    from_kernel: tuple[Interface, ...] | Unknown = map_known(
        places, lambda places: _of_kernel(source, places)
    )
    if not source.given(_KIND) and not source.given(_TOPOLOGY):
        return {"interfaces": from_kernel}
    return _with_texts(source, from_kernel)


def _of_kernel(source: Source, places: tuple[_Place, ...]) -> tuple[Interface, ...]:
    routes = read_text(source, _ROUTE)
    addresses = _addresses(source, routes)
    default = _default_interface(source, routes)
    return tuple(_interface(source, place, addresses, default) for place in places)


def _with_texts(source: Source, kernel_interfaces: tuple[Interface, ...] | Unknown) -> dict[str, object]:
    from probes.parsers.fabric.ip_json import parse_interfaces  # noqa: PLC0415 - likewise

    # Only pasted texts need this module.
    from probes.reading.merging.merge_interfaces import from_text, merge_interfaces  # noqa: PLC0415

    groups = [] if isinstance(kernel_interfaces, Unknown) else [kernel_interfaces]
    unread: list[Unread] = []
    for given in source.given(_KIND):
        parsed = parse_interfaces(given.text)
        if isinstance(parsed, Unknown):
            unread.append(Unread(source=given.name, why=parsed.detail))
        else:
            groups.append(from_text(parsed, EvidenceRef(source="paste", key=given.name)))
    for given in source.given(_TOPOLOGY):
        from probes.parsers.topology import nccl_topology  # noqa: PLC0415 - likewise

        groups.append(
            from_text(nccl_topology.parse_interfaces(given.text), EvidenceRef(source="paste", key=given.name))
        )
    interfaces, contradictions = merge_interfaces(groups)
    answer = kernel_interfaces if isinstance(kernel_interfaces, Unknown) and not interfaces else interfaces
    return {"interfaces": answer, "contradictions": contradictions, "unread": tuple(unread)}


def _places(source: Source) -> tuple[_Place, ...] | Unknown:
    """Return the interfaces of the class folder, and bond members that only their bond's folder shows.

    The latter may belong to another container.
    """
    names = source.names(_CLASS)
    if isinstance(names, Unknown):
        return _below_pci(source) or names
    real = [name for name in names if name != "bonding_masters"]  # a control file among the interfaces
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
    addresses = source.names(DEVICES)
    places: list[_Place] = []
    for address in items_of(addresses):
        for name in items_of(source.names(f"{DEVICES}/{address}/net")):
            places.append(_Place(name=name, folder=f"{DEVICES}/{address}/net/{name}"))
    return tuple(sorted(places, key=lambda place: place.name))


def _members(source: Source, folder: str) -> tuple[str, ...] | None:
    """Return the members of a bond; None for other interfaces."""
    text = read_text(source, f"{folder}/bonding/slaves")
    return None if isinstance(text, Unknown) else tuple(text.split())


def _interface(
    source: Source, place: _Place, addresses: _Addresses, default: str | Unknown | None
) -> Interface:
    name, folder = place.name, place.folder
    path = source.link(folder)
    known = addresses.by_interface
    return Interface(
        name=name,
        up=_up(source, folder),
        speed_gbps=_speed_gbps(source, folder),
        mtu=read_int(source, f"{folder}/mtu"),
        addresses=map_known(known, lambda known: known.get(name, addresses.when_absent)),
        is_virtual=map_known(path, lambda path: path.startswith("/sys/devices/virtual/")),
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
    path = source.link(f"{folder}/device")
    if isinstance(path, Unknown):
        return when_missing(path, None)
    # A paravirtual device is a child of its PCI device.
    address = address_of(path)
    return address if isinstance(address, str) else address_of(path.rpartition("/")[0])


def _link_seen_by_bond(source: Source, place: _Place) -> bool | Unknown | None:
    if place.bond is None:
        return None
    status = read_text(source, f"{place.folder}/bonding_slave/mii_status")
    if not isinstance(status, Unknown):
        return status == "up"
    text = read_text(source, f"{_BONDING}/{place.bond}")
    return status if isinstance(text, Unknown) else parse_bonding(text).get(place.name, status)


def _up(source: Source, folder: str) -> bool | Unknown:
    """Return whether an interface can carry traffic.

    Drivers without carrier detection report `unknown`; then the administrator's flag counts.
    """
    state = read_text(source, f"{folder}/operstate")
    if isinstance(state, Unknown):
        return state
    if state != "unknown":
        return state == "up"
    return map_known(read_int(source, f"{folder}/flags", 16), lambda flags: bool(flags & _IFF_UP))


def _speed_gbps(source: Source, folder: str) -> float | Unknown:
    """Return the speed in Gb/s.

    sysfs states Mb/s; -1, an error or all bits set mean that there is no link or the speed is unknown.
    """
    speed = read_int(source, f"{folder}/speed")
    if isinstance(speed, Unknown):
        return speed
    return (
        speed / 1000 if 0 < speed < 1 << 31 else Unknown(Reason.NOT_SUPPORTED, f"{folder}/speed says {speed}")
    )


def _addresses(source: Source, routes: str | Unknown) -> _Addresses:
    """Return addresses from `ip`; in images without it, IPv4 addresses from the routes that lead to them."""
    by_command = map_known(source.run(_IP_ADDR).text(), parse_ip_addresses)
    if not isinstance(by_command, Unknown):
        return _Addresses(by_interface=by_command, when_absent=(), evidence=command_ref(_IP_ADDR))
    trie = read_text(source, _FIB_TRIE)
    if isinstance(trie, Unknown) or isinstance(routes, Unknown):
        return _Addresses(by_interface=by_command, when_absent=by_command, evidence=command_ref(_IP_ADDR))
    by_route = addresses_by_route(local_addresses(trie), parse_routes(routes))
    return _Addresses(by_interface=by_route, when_absent=by_command, evidence=file_ref(_FIB_TRIE))


def _default_interface(source: Source, routes: str | Unknown) -> str | Unknown | None:
    interface = None if isinstance(routes, Unknown) else default_interface(parse_routes(routes))
    if interface is not None:
        return interface
    version_6 = read_text(source, _ROUTE_V6)
    if not isinstance(version_6, Unknown):
        interface = parse_default_ipv6(version_6)
    return routes if interface is None and isinstance(routes, Unknown) else interface
