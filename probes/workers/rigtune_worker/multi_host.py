"""Run one rank of a benchmark on several hosts.

    python -m rigtune_worker.multi_host --limit-s S --hosts A,B -- BENCH --request ...

This module does more than `rigtune_worker`: it binds the connections of NCCL and gloo to the interface that
leads to the other hosts (IPv4, from /proc/net/route), and reports its host by the name that the user gave. It
always ends after `--limit-s` seconds, because the launcher cannot end ranks on a host that it no longer
reaches.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import socket
import sys

from .__main__ import main
from .worker_process import run_and_leave

HOST = "RIGTUNE_HOST"
LOOPBACK = "lo"
ROUTES = "/proc/net/route"
FLAG_UP = 1
"""RTF_UP (linux/route.h)."""


def name_of_host(hosts: list[str], rank: int, world_size: int) -> str:
    """Return the host of a rank.

    Slurm orders the nodes itself and sets SLURMD_NODENAME; other launchers assign ranks in the order of the
    hosts.
    """
    return os.environ.get("SLURMD_NODENAME") or hosts[rank * len(hosts) // world_size]


def prepare(limit_s: int, hosts: list[str]) -> None:
    signal.alarm(limit_s)  # without a handler, the kernel ends the process
    own = name_of_host(hosts, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    os.environ[HOST] = own
    interface = interface_to([os.environ.get("MASTER_ADDR", ""), *(host for host in hosts if host != own)])
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "=" + interface)


def interface_to(hosts: list[str]) -> str:
    """Return the interface to the first of the hosts that another interface than the loopback leads to.

    If there is no such host, the result is the loopback if a host resolves to a loopback address, else empty.
    """
    interfaces = [interface_of(address) for address in map(address_of, hosts) if address]
    real = [name for name in interfaces if name and name != LOOPBACK]
    return real[0] if real else (LOOPBACK if LOOPBACK in interfaces else "")


def address_of(host: str) -> str:
    """Return the IPv4 address of a host; empty if this machine cannot resolve the name."""
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
    for name, destination, _, flags, _, _, metric, mask, *_ in rows:
        if int(flags, 16) & FLAG_UP and wanted & swapped(mask) == swapped(destination):
            best = max(best, (swapped(mask), -int(metric), name))
    return best[2]


def swapped(text: str) -> int:
    """Return an address of /proc/net/route, printed in hexadecimal with the last byte first, as a number."""
    return int.from_bytes(int(text, 16).to_bytes(4, "little"), "big")


def run() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rigtune_worker.multi_host", description="Run one benchmark on several hosts."
    )
    parser.add_argument("--limit-s", type=int, required=True, help="end after so many seconds")
    parser.add_argument("--hosts", required=True, help="the hosts in order, separated by commas")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="arguments of rigtune_worker")
    options = parser.parse_args()
    prepare(options.limit_s, options.hosts.split(","))
    sys.argv[1:] = [word for word in options.rest if word != "--"]
    return main()


if __name__ == "__main__":
    run_and_leave(run)
