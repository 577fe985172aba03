"""Parse a list of hosts with the node GUIDs of their ports.

It consists of pairs of lines: `VM_hostname NAME`, then 16 hex digits.
"""

from __future__ import annotations

import re

from probes.base.record import Unknown
from probes.parsers.fabric.rdma_words import guid

_NAME = re.compile(r"(?:VM_)?hostname[ \t:]+([\w.-]{1,255})[ \t]*", re.IGNORECASE)
_GUID = re.compile(r"[ \t]*(?:0x)?([0-9a-fA-F]{16})[ \t]*")


def recognise(text: str) -> bool:
    """Return whether the text is such a list and nothing else."""
    lines = [line for line in text[:200_000].splitlines() if line.strip()]
    named = any(_NAME.fullmatch(line) for line in lines[:1])
    return (
        named
        and len(lines) > 1
        and all(_NAME.fullmatch(line) or _GUID.fullmatch(line) for line in lines[:-1])
    )


def hosts_by_guid(text: str) -> dict[str, str]:
    """Return the host of each node GUID."""
    hosts: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if (match := _NAME.fullmatch(line)) is not None:
            name = match[1]
        elif (match := _GUID.fullmatch(line)) is not None and name:
            node = guid(match[1])
            if not isinstance(node, Unknown):
                hosts.setdefault(node, name)
    return hosts
