"""Parse /proc/net/route, /proc/net/fib_trie, /proc/net/bonding, /etc/hosts and `ip -j addr`."""

import msgspec

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown, from_json

_ROUTE_UP = 0x1
_ROUTE_GATEWAY = 0x2
_ROUTE = pattern(
    r"\s*(?P<interface>\S+)\s+(?P<destination>[0-9A-Fa-f]{1,8})\s+[0-9A-Fa-f]+\s+(?P<flags>[0-9A-Fa-f]{1,8})"
    r"\s+\S+\s+\S+\s+(?P<metric>\d{1,12})\s+(?P<mask>[0-9A-Fa-f]{1,8})(?:\s|$)"
)
_LOCAL = pattern(r"\|--\s+(\d+\.\d+\.\d+\.\d+)[ \t]*\n\s*/32 host LOCAL")


class Route(Record, kw_only=True):
    """One IPv4 route of the main table; its addresses are numbers in host order."""

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
    """Return the routes of /proc/net/route that are up."""
    matches = (_ROUTE.match(line) for line in text.splitlines()[1:])
    return tuple(
        Route(
            interface=match["interface"],
            destination=_swap(match["destination"]),
            mask=_swap(match["mask"]),
            has_gateway=bool(int(match["flags"], 16) & _ROUTE_GATEWAY),
            metric=int(match["metric"]),
        )
        for match in matches
        if match is not None and int(match["flags"], 16) & _ROUTE_UP
    )


def default_interface(routes: tuple[Route, ...]) -> str | None:
    """Return the interface of the default route with the lowest metric; None if there is no default route."""
    defaults = [route for route in routes if route.mask == 0 and route.destination == 0]
    return min(defaults, key=lambda route: route.metric).interface if defaults else None


def parse_default_ipv6(text: str) -> str | None:
    """Return the interface of the default route with the lowest metric in /proc/net/ipv6_route.

    `lo` is left out because it has the unreachable route.
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
    """Return addresses with prefix length by interface, from `ip -j addr`."""
    try:
        interfaces = from_json(text, list[_IpInterface])
    except msgspec.DecodeError as error:
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
    """Return the machine's own IPv4 addresses, in order, from /proc/net/fib_trie.

    The file does not contain their interfaces.
    """
    return tuple(dict.fromkeys(match[1] for match in _LOCAL.finditer(fib_trie)))


def addresses_by_route(addresses: tuple[str, ...], routes: tuple[Route, ...]) -> dict[str, tuple[str, ...]]:
    """Return addresses by interface.

    An address is included if it lies in the directly connected network of exactly one interface.
    """
    by_interface: dict[str, list[str]] = {}
    for address in addresses:
        value = _ipv4(address)
        local_routes = [
            route
            for route in routes
            if not route.has_gateway
            and route.mask
            and value is not None
            and value & route.mask == route.destination
        ]
        interfaces = {route.interface for route in local_routes}
        if len(interfaces) == 1:
            prefix = max(route.mask.bit_count() for route in local_routes)
            by_interface.setdefault(interfaces.pop(), []).append(f"{address}/{prefix}")
    return {name: tuple(values) for name, values in by_interface.items()}


def parse_bonding(text: str) -> dict[str, bool]:
    """Return whether the link of each member is up, from a file of /proc/net/bonding."""
    is_up_by_member: dict[str, bool] = {}
    member = ""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if name.strip() == "Slave Interface":
            member = value.strip()
        elif name.strip() == "MII Status" and colon and member:
            is_up_by_member.setdefault(member, value.strip() == "up")
    return is_up_by_member


def parse_hosts(text: str, name: str) -> tuple[str, ...]:
    """Return the addresses of `name` in /etc/hosts."""
    rows = (line.partition("#")[0].split() for line in text.splitlines())
    return tuple(dict.fromkeys(row[0] for row in rows if name.lower() in map(str.lower, row[1:])))


def parse_ahosts(text: str) -> tuple[str, ...]:
    """Return the addresses of `getent ahosts`, each once."""
    return tuple(dict.fromkeys(line.split()[0] for line in text.splitlines() if line.strip()))


def _ipv4(text: str) -> int | None:
    parts = [int(part) for part in text.split(".")]
    if len(parts) != 4 or any(part > 255 for part in parts):
        return None
    return int.from_bytes(bytes(parts), "big")


def _swap(digits: str) -> int:
    """Return an address in host order.

    The kernel prints the number in hexadecimal digits, as a little-endian machine reads network order.
    """
    return int.from_bytes(int(digits, 16).to_bytes(4, "little"), "big")
