"""Network interfaces of the kernel, with their addresses and the default route."""

from __future__ import annotations

from probes.collecting import CollectOptions
from probes.evidence import command_ref, file_ref
from probes.facts import Interface
from probes.parsers.network import (
    addresses_by_route,
    default_interface,
    local_addresses,
    parse_default_ipv6,
    parse_ip_addresses,
    parse_routes,
)
from probes.record import EvidenceRef, Reason, Record, Unknown
from probes.sources.base import Source, read_int, read_text

_CLASS = "/sys/class/net"
_ROUTE = "/proc/net/route"
_ROUTE_V6 = "/proc/net/ipv6_route"
_FIB_TRIE = "/proc/net/fib_trie"
_IP_ADDR = ("ip", "-j", "addr")
_IFF_UP = 0x1


class _Addresses(Record, kw_only=True):
    by_interface: dict[str, tuple[str, ...]] | Unknown
    when_absent: tuple[str, ...] | Unknown
    """What an interface that is not named has: nothing, or nobody knows."""
    evidence: EvidenceRef


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`interfaces`, in the order of their names."""
    names = source.names(_CLASS)
    if isinstance(names, Unknown):
        return {"interfaces": names}
    routes = read_text(source, _ROUTE)
    addresses = _addresses(source, routes)
    default = _default_interface(source, routes)
    real = (name for name in names if name != "bonding_masters")  # a control file among the interfaces
    return {"interfaces": tuple(_interface(source, name, addresses, default) for name in real)}


def _interface(source: Source, name: str, addresses: _Addresses, default: str | Unknown | None) -> Interface:
    folder = f"{_CLASS}/{name}"
    path = source.link(folder)
    known = addresses.by_interface
    return Interface(
        name=name,
        up=_up(source, folder),
        speed_gbps=_speed_gbps(source, folder),
        mtu=read_int(source, f"{folder}/mtu"),
        addresses=known if isinstance(known, Unknown) else known.get(name, addresses.when_absent),
        is_virtual=path if isinstance(path, Unknown) else path.startswith("/sys/devices/virtual/"),
        is_default_route=default if isinstance(default, Unknown) else name == default,
        evidence=(file_ref(folder), addresses.evidence, file_ref(_ROUTE)),
    )


def _up(source: Source, folder: str) -> bool | Unknown:
    """Whether it can carry traffic. Drivers without carrier detection say `unknown`; then the administrator's flag counts."""
    state = read_text(source, f"{folder}/operstate")
    if isinstance(state, Unknown):
        return state
    if state != "unknown":
        return state == "up"
    flags = read_int(source, f"{folder}/flags", 16)
    return flags if isinstance(flags, Unknown) else bool(flags & _IFF_UP)


def _speed_gbps(source: Source, folder: str) -> float | Unknown:
    """Mb/s in sysfs; -1, an error or all bits set where there is no link or the driver does not know."""
    speed = read_int(source, f"{folder}/speed")
    if isinstance(speed, Unknown):
        return speed
    return speed / 1000 if 0 < speed < 1 << 31 else Unknown(Reason.NOT_SUPPORTED, f"{folder}/speed says {speed}")


def _addresses(source: Source, routes: str | Unknown) -> _Addresses:
    """From `ip`; in images without it, IPv4 addresses by the routes that lead to them."""
    text = source.run(_IP_ADDR).text()
    told = text if isinstance(text, Unknown) else parse_ip_addresses(text)
    if not isinstance(told, Unknown):
        return _Addresses(by_interface=told, when_absent=(), evidence=command_ref(_IP_ADDR))
    trie = read_text(source, _FIB_TRIE)
    if isinstance(trie, Unknown) or isinstance(routes, Unknown):
        return _Addresses(by_interface=told, when_absent=told, evidence=command_ref(_IP_ADDR))
    by_route = addresses_by_route(local_addresses(trie), parse_routes(routes))
    return _Addresses(by_interface=by_route, when_absent=told, evidence=file_ref(_FIB_TRIE))


def _default_interface(source: Source, routes: str | Unknown) -> str | Unknown | None:
    found = None if isinstance(routes, Unknown) else default_interface(parse_routes(routes))
    if found is not None:
        return found
    version_6 = read_text(source, _ROUTE_V6)
    if not isinstance(version_6, Unknown):
        found = parse_default_ipv6(version_6)
    return routes if found is None and isinstance(routes, Unknown) else found
