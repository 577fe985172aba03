"""Two network namespaces with a veth pair between them, each end limited by `tc`. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

BURST, LATENCY = "64kb", "50ms"
ADDRESSES = ("10.88.77.1", "10.88.77.2")
DEVICE = "veth0"


class Link(NamedTuple):
    """The two ends of a limited link."""

    namespaces: tuple[str, str]

    def command(self, end: int, *argv: str) -> tuple[str, ...]:
        """Return the command that runs `argv` in the namespace of this end."""
        return ("ip", "netns", "exec", self.namespaces[end], *argv)


def limits(kind: str, rate: str) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of `tc` that limit a device with this kind of queue."""
    root = ("qdisc", "add", "dev", DEVICE, "root")
    if kind == "tbf":
        return ((*root, "tbf", "rate", rate, "burst", BURST, "latency", LATENCY),)
    if kind == "htb":
        leaf = ("class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:1")
        return ((*root, "handle", "1:", "htb", "default", "1"), (*leaf, "htb", "rate", rate, "burst", BURST))
    return ((*root, kind, *({"netem": ("rate", rate)}.get(kind, ()))),)


@contextlib.contextmanager
def slow_link(kind: str, rate: str) -> Iterator[Link]:
    """Make the link, and remove it afterwards. Raises RuntimeError with the words of `tc` if it refuses."""
    link = Link((f"rigtune{os.getpid()}a", f"rigtune{os.getpid()}b"))
    first, second = link.namespaces
    try:
        for name in link.namespaces:
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        peer = ("type", "veth", "peer", "name", DEVICE, "netns", second)
        _run("ip", "-n", first, "link", "add", DEVICE, *peer)
        for end, name in enumerate(link.namespaces):
            _run("ip", "-n", name, "addr", "add", f"{ADDRESSES[end]}/24", "dev", DEVICE)
            _run("ip", "-n", name, "link", "set", DEVICE, "up")
            for arguments in limits(kind, rate):
                _run(*link.command(end, "tc", *arguments))
        yield link
    finally:
        for name in link.namespaces:
            subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")


def refusal(kind: str) -> str:
    """Return why this kernel or this `tc` refuses a kind of queue; empty if the kind works."""
    try:
        with slow_link(kind, "100mbit"):
            return ""
    except RuntimeError as error:
        return str(error).rsplit(": ", 1)[-1]
