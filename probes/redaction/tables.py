"""Replace numeric identities in the kernel's routing tables and in the configuration space of PCI devices."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from probes.redaction.addresses import map_v4, map_v6
from probes.redaction.hardware_ids import guid_placeholder
from probes.redaction.placeholders import Book
from probes.redaction.spans import Span

_ROUTE = re.compile(r"^(\S+\t)([0-9A-F]{8})(\t)([0-9A-F]{8})(\t(?:\S+\t){4})([0-9A-F]{8})\b", re.MULTILINE)
_HEX_128 = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_EXTENDED = 0x100
_SERIAL_CAPABILITY = 0x0003
"""Device Serial Number (PCI Express Base Specification 6.0, section 7.9.3)."""


def route_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the addresses in /proc/net/route: hexadecimal, with the first octet last."""
    for match in _ROUTE.finditer(text):
        mask = _swapped(match[6])
        yield Span(*match.span(2), "ip", _swapped_text(_mapped(_swapped(match[2]), book) & mask))
        yield Span(*match.span(4), "ip", _swapped_text(_mapped(_swapped(match[4]), book)))


def route_v6_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the addresses in /proc/net/ipv6_route and if_inet6: 32 hex digits each."""
    for match in _HEX_128.finditer(text):
        mapped = map_v6(ipaddress.IPv6Address(int(match[0], 16)).exploded, book)
        yield Span(*match.span(), "ip", f"{int(ipaddress.IPv6Address(mapped)):032x}")


def without_serial(config: bytes, book: Book) -> bytes:
    """Return the configuration space of a PCI device with a placeholder for its serial number."""
    offset, visited = _EXTENDED, set[int]()
    while _EXTENDED <= offset <= len(config) - 12 and offset not in visited:
        visited.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _SERIAL_CAPABILITY:
            serial = int.from_bytes(config[offset + 4 : offset + 12], "little")
            placeholder = int(guid_placeholder(f"{serial:016x}", book), 16)
            return config[: offset + 4] + placeholder.to_bytes(8, "little") + config[offset + 12 :]
        offset = header >> 20
    return config


def _swapped(digits: str) -> int:
    return int.from_bytes(bytes.fromhex(digits), "little")


def _swapped_text(value: int) -> str:
    return value.to_bytes(4, "little").hex().upper()


def _mapped(value: int, book: Book) -> int:
    return int(ipaddress.IPv4Address(map_v4(str(ipaddress.IPv4Address(value)), book)))
