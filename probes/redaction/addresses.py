"""Replace IP addresses so that subnets stay subnets.

Two addresses that share exactly their first n bits have placeholders that share exactly their first n bits.
For public IPv4 addresses this begins with the second octet, because the first octets are permuted; in IPv6 it
ends with the 64 bits of the network. The method is Crypto-PAn (Xu, Fan, Ammar, Moon: Prefix-Preserving IP
Address Anonymization, ICNP 2002): a keyed hash of the bits before bit i decides whether bit i is flipped. The
bits that make an address private, shared or public are kept. Addresses that identify no machine are kept:
loopback, unspecified, netmasks and multicast, except for the multicast addresses that contain bits of a
machine's address (solicited-node).
"""

import ipaddress
import re
from collections.abc import Iterator

from probes.redaction.identifiers import guid_placeholder, mac_placeholder
from probes.redaction.placeholders import Book, Span

_V4 = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_QUAD = rf"{_V4}(?:\.{_V4}){{3}}"
_IPV4 = re.compile(rf"(?<![\w.])({_QUAD})(/\d{{1,2}}(?!\d))?(?![\w]|\.\w|-\d|[+~])")
_REVERSED = re.compile(rf"(?<![\w.])({_QUAD})(?=\.in-addr\.arpa\b)", re.IGNORECASE)
_RANGE = re.compile(rf"(?<![\w.])({_QUAD})-({_QUAD})(?![\w.])")
_DASHED = re.compile(rf"(?<![0-9A-Za-z-])ip-({_V4}(?:-{_V4}){{3}})(?![0-9A-Za-z])", re.IGNORECASE)
_VERSION_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:version|versions|ver|rev|revision|release|firmware|fw|cudnn|ofed|driver|"
    r"bios)[\"')\]]{0,2}[ \t]*"
    r"[:=|]?[ \t]*[\"'(]?v?$",
    re.IGNORECASE,
)
_IPV6 = re.compile(
    rf"(?<![0-9A-Za-z.])(?:[0-9A-Fa-f]{{0,4}}:){{2,7}}(?:{_QUAD}|[0-9A-Fa-f]{{0,4}})(?![0-9A-Za-z:])"
)
_KEPT_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        ("0.0.0.0/8", "127.0.0.0/8", "169.254.169.254/32", "224.0.0.0/4", "255.0.0.0/8"),
    )
)  # 169.254.169.254 is the metadata service of every cloud
_CLASSES_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
    )
)
_PUBLIC_OCTETS = [octet for octet in range(1, 224) if octet not in (10, 127)]
# A first octet that contains private ranges must not be a replacement; 240 to 243 (reserved, RFC 1112) are
# used in its place.
_PUBLIC_TARGETS: list[int] = [octet for octet in _PUBLIC_OCTETS if octet not in (100, 169, 172, 192)] + [
    *range(240, 244)
]
_LOW_64 = (1 << 64) - 1


def address_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the IPv4 and IPv6 addresses in a text, but no version numbers with four parts."""
    for match in _IPV4.finditer(text):
        before = text[max(match.start() - 24, 0) : match.start()]
        if not (_VERSION_BEFORE.search(before) or before.endswith("-")):
            yield Span(*match.span(), "ip", _with_length(match[1], match[2], book))
    for match in _REVERSED.finditer(text):
        mapped = map_v4(".".join(reversed(match[1].split("."))), book)
        yield Span(*match.span(1), "ip", ".".join(reversed(mapped.split("."))))
    for match in _RANGE.finditer(text):
        yield Span(*match.span(), "ip", f"{map_v4(match[1], book)}-{map_v4(match[2], book)}")
    for match in _DASHED.finditer(text):
        yield Span(*match.span(1), "ip", map_v4(match[1].replace("-", "."), book).replace(".", "-"))
    for match in _IPV6.finditer(text):
        mapped = map_v6(match[0], book)
        if mapped != match[0]:
            yield Span(*match.span(), "ip", mapped)


def map_v4(text: str, book: Book) -> str:
    """Return the placeholder of an IPv4 address, or `text` if the address identifies no machine."""
    address = ipaddress.IPv4Address(text)
    if any(address in network for network in _KEPT_V4):
        return text
    keep = next((network.prefixlen for network in _CLASSES_V4 if address in network), 0)
    mapped = _flip(int(address), 32, keep, book) if keep else _map_public(int(address), book)
    book.values["ip"].add(text)
    return str(ipaddress.IPv4Address(mapped))


def map_v6(text: str, book: Book) -> str:
    """Return the placeholder of an IPv6 address or GID in the same spelling.

    Return `text` itself if it is not an address, or if the address identifies no machine.
    """
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    value = int(address)
    mapped = value
    if value < 1 << 32:  # ::, ::1
        return text
    if address.ipv4_mapped is not None:
        mapped = value >> 32 << 32 | int(ipaddress.IPv4Address(map_v4(str(address.ipv4_mapped), book)))
    elif address.is_link_local:
        mapped = value & ~_LOW_64 | map_interface_id(value & _LOW_64, book)
    elif value >> 24 == 0xFF0200000000000000000001FF:  # a solicited-node address
        mapped = value >> 24 << 24 | book.bits("ip", f"{value & 0xFFFFFF}") & 0xFFFFFF
    elif not address.is_multicast:
        high = _flip(value >> 64, 64, 8 if address.is_private else 3, book)
        mapped = high << 64 | map_interface_id(value & _LOW_64, book)
    if mapped == value:
        return text
    book.values["ip"].add(str(address))
    return _spell_like(text, ipaddress.IPv6Address(mapped))


def map_interface_id(identifier: int, book: Book) -> int:
    """Return the placeholder of the lower 64 bits, which contain a MAC address or a GUID.

    A small number, set by hand, is kept.
    """
    if identifier < 1 << 16:
        return identifier
    digits = f"{identifier:016x}"
    if digits[6:10] == "fffe":
        placeholder = mac_placeholder(f"{int(digits[:2], 16) ^ 2:02x}{digits[2:6]}{digits[10:]}", book)
        return int(f"{int(placeholder[:2], 16) ^ 2:02x}{placeholder[2:6]}fffe{placeholder[6:]}", 16)
    return int(guid_placeholder(digits, book), 16)


def _with_length(text: str, length: str | None, book: Book) -> str:
    """Return the placeholder of an address with its prefix length; a network stays a network."""
    mapped = map_v4(text, book)
    if length is None:
        return mapped
    bits = min(int(length[1:]), 32)
    host = (1 << (32 - bits)) - 1
    if bits < 31 and not int(ipaddress.IPv4Address(text)) & host:
        mapped = str(ipaddress.IPv4Address(int(ipaddress.IPv4Address(mapped)) & ~host))
    return mapped + length


def _flip(value: int, width: int, keep: int, book: Book) -> int:
    result = value >> (width - keep) if keep else 0
    for position in range(keep, width):
        bit = value >> (width - position - 1) & 1
        flip = book.bits(f"ip{width}", f"{position}:{value >> (width - position)}") & 1
        result = result << 1 | bit ^ flip
    return result


def _map_public(value: int, book: Book) -> int:
    """Return the replacement of a public address, with a first octet that contains no private range.

    A reserved address (240.0.0.0 and above) is kept.
    """
    octet = value >> 24
    if octet >= 240:
        return value
    targets: list[int] = sorted(_PUBLIC_TARGETS, key=lambda target: book.bits("ip8", str(target)))
    return targets[_PUBLIC_OCTETS.index(octet)] << 24 | _flip(value, 32, 8, book) & 0xFFFFFF


def _spell_like(text: str, address: ipaddress.IPv6Address) -> str:
    groups = text.split(":")
    if len(groups) == 8 and all(len(group) == 4 for group in groups):
        spelling = address.exploded
    elif "." in text:
        spelling = f"::ffff:{ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)}"
    else:
        spelling = str(address)
    return spelling.upper() if text != text.lower() else spelling


_ROUTE = re.compile(r"^(\S+\t)([0-9A-F]{8})(\t)([0-9A-F]{8})(\t(?:\S+\t){4})([0-9A-F]{8})\b", re.MULTILINE)
_HEX_128 = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def route_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the addresses in /proc/net/route, which are hexadecimal with the first octet last."""
    for match in _ROUTE.finditer(text):
        mask = _swapped(match[6])
        yield Span(*match.span(2), "ip", _swapped_text(_mapped(_swapped(match[2]), book) & mask))
        yield Span(*match.span(4), "ip", _swapped_text(_mapped(_swapped(match[4]), book)))


def route_v6_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the addresses in /proc/net/ipv6_route and if_inet6, each with 32 hex digits."""
    for match in _HEX_128.finditer(text):
        mapped = map_v6(ipaddress.IPv6Address(int(match[0], 16)).exploded, book)
        yield Span(*match.span(), "ip", f"{int(ipaddress.IPv6Address(mapped)):032x}")


def _swapped(digits: str) -> int:
    return int.from_bytes(bytes.fromhex(digits), "little")


def _swapped_text(value: int) -> str:
    return value.to_bytes(4, "little").hex().upper()


def _mapped(value: int, book: Book) -> int:
    return int(ipaddress.IPv4Address(map_v4(str(ipaddress.IPv4Address(value)), book)))
