"""Select the network interface that leads to another host: IPv4, from /proc/net/route."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK = "lo"
ROUTES = "/proc/net/route"
FLAG_UP = 1
"""RTF_UP (linux/route.h)."""


def interface_to(hosts: list[str]) -> str:
    """Return the interface to the first of `hosts` that a real interface reaches.

    The result is the loopback if all are on this machine, and empty if no name is known here or the routes
    cannot be read.
    """
    interfaces = [interface_of(address) for address in map(address_of, hosts) if address]
    real = [name for name in interfaces if name and name != LOOPBACK]
    return real[0] if real else (LOOPBACK if LOOPBACK in interfaces else "")


def address_of(host: str) -> str:
    """Return the IPv4 address of a host; empty if its name is not known here."""
    try:
        return socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return ""


def interface_of(address: str) -> str:
    """Return the interface with the longest matching prefix, then with the lowest metric.

    An address of this machine belongs to the interface of its network.
    """
    if ipaddress.ip_address(address).is_loopback:
        return LOOPBACK
    wanted = int(ipaddress.IPv4Address(address))
    best: tuple[int, int, str] = (-1, 0, "")
    try:
        with open(ROUTES, encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return ""
    for row in rows:
        name, destination, flags, metric, mask = (
            row[0],
            swapped(row[1]),
            int(row[3], 16),
            int(row[6]),
            swapped(row[7]),
        )
        if flags & FLAG_UP and wanted & mask == destination:
            best = max(best, (mask, -metric, name))
    return best[2]


def swapped(text: str) -> int:
    """Return a number of /proc/net/route, whose bytes are in this machine's order."""
    return int.from_bytes(int(text, 16).to_bytes(4, "little"), "big")
