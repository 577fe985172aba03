"""/proc/net/route, /proc/net/fib_trie, /proc/net/bonding, /etc/hosts and `ip -j addr`."""

from __future__ import annotations

import msgspec

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown

_ROUTE_UP = 0x1
_ROUTE_GATEWAY = 0x2
_LOCAL = pattern(r"\|--\s+(\d+\.\d+\.\d+\.\d+)[ \t]*\n\s*/32 host LOCAL")


class Route(Record, kw_only=True):
    """One IPv4 route of the main table. Addresses are numbers in host order."""

    interface: str
    destination: int
    mask: int
    has_gateway: bool
    metric: int


class _AddressInfo(msgspec.Struct):
    local: str = ""
    prefixlen: int | None = None


class _IpInterface(msgspec.Struct):
    ifname: str = ""
    addr_info: list[_AddressInfo] = []


def parse_routes(text: str) -> tuple[Route, ...]:
    """The routes of /proc/net/route that are up."""
    routes: list[Route] = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        try:
            destination, flags, metric, mask = (
                int(fields[1], 16),
                int(fields[3], 16),
                int(fields[6]),
                int(fields[7], 16),
            )
        except (IndexError, ValueError):
            continue
        if flags & _ROUTE_UP and 0 <= destination < 1 << 32 and 0 <= mask < 1 << 32:
            routes.append(
                Route(
                    interface=fields[0],
                    destination=_swap(destination),
                    mask=_swap(mask),
                    has_gateway=bool(flags & _ROUTE_GATEWAY),
                    metric=metric,
                )
            )
    return tuple(routes)


def default_interface(routes: tuple[Route, ...]) -> str | None:
    """The interface of the default route with the lowest metric."""
    defaults = [route for route in routes if route.mask == 0 and route.destination == 0]
    return min(defaults, key=lambda route: route.metric).interface if defaults else None


def parse_default_ipv6(text: str) -> str | None:
    """The interface of the default route in /proc/net/ipv6_route with the lowest metric; `lo` holds the
    unreachable one.
    """
    best: tuple[int, str] | None = None
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 10 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
            try:
                candidate = (int(fields[5], 16), fields[9])
            except ValueError:
                continue
            best = min(best or candidate, candidate)
    return best[1] if best else None


def parse_ip_addresses(text: str) -> dict[str, tuple[str, ...]] | Unknown:
    """Addresses with prefix length by interface, from `ip -j addr`."""
    try:
        interfaces = msgspec.json.decode(text, type=list[_IpInterface])
    except (msgspec.DecodeError, RecursionError) as error:
        return Unknown(Reason.UNPARSABLE, f"ip -j addr: {error}")
    return {
        row.ifname: tuple(
            info.local if info.prefixlen is None else f"{info.local}/{info.prefixlen}"
            for info in row.addr_info
            if info.local
        )
        for row in interfaces
        if row.ifname
    }


def local_addresses(fib_trie: str) -> tuple[str, ...]:
    """The machine's own IPv4 addresses, in order, from /proc/net/fib_trie. It does not say on which
    interface.
    """
    return tuple(dict.fromkeys(match[1] for match in _LOCAL.finditer(fib_trie)))


def addresses_by_route(addresses: tuple[str, ...], routes: tuple[Route, ...]) -> dict[str, tuple[str, ...]]:
    """Addresses by interface, for each address that lies in the directly connected network of exactly one
    interface.
    """
    found: dict[str, list[str]] = {}
    for address in addresses:
        value = _ipv4(address)
        near = [
            route
            for route in routes
            if not route.has_gateway
            and route.mask
            and value is not None
            and value & route.mask == route.destination
        ]
        interfaces = {route.interface for route in near}
        if len(interfaces) == 1:
            prefix = max(route.mask.bit_count() for route in near)
            found.setdefault(interfaces.pop(), []).append(f"{address}/{prefix}")
    return {name: tuple(values) for name, values in found.items()}


def parse_bonding(text: str) -> dict[str, bool]:
    """Whether the link of each member is up, from a file of /proc/net/bonding."""
    found: dict[str, bool] = {}
    member = ""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if name.strip() == "Slave Interface":
            member = value.strip()
        elif name.strip() == "MII Status" and colon and member:
            found.setdefault(member, value.strip() == "up")
    return found


def parse_hosts(text: str, name: str) -> tuple[str, ...]:
    """The addresses that /etc/hosts gives to `name`."""
    found: list[str] = []
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if any(alias.lower() == name.lower() for alias in fields[1:]):
            found.append(fields[0])
    return tuple(dict.fromkeys(found))


def parse_ahosts(text: str) -> tuple[str, ...]:
    """The addresses of `getent ahosts`, each once."""
    return tuple(dict.fromkeys(line.split()[0] for line in text.splitlines() if line.strip()))


def _ipv4(text: str) -> int | None:
    parts = [int(part) for part in text.split(".")]
    if len(parts) != 4 or any(part > 255 for part in parts):
        return None
    return int.from_bytes(bytes(parts), "big")


def _swap(value: int) -> int:
    """The kernel prints the number as a little-endian machine reads network order."""
    return int.from_bytes(value.to_bytes(4, "little"), "big")
