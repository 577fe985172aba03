"""Parse `show_gids` of the vendor's driver package: the GID tables."""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED
from probes.facts import Gid, Nic
from probes.parsers.fabric.rdma_words import mapped_ipv4

_LINE = re.compile(
    r"[ \t]*([A-Za-z][\w.-]{0,63})[ \t]+(\d{1,3})[ \t]+(\d{1,4})[ \t]+((?:[0-9a-f]{4}:){7}[0-9a-f]{4})"
    r"(?:[ \t]+(\d{1,3}(?:\.\d{1,3}){3}))?[ \t]+v([12])(?:[ \t]+(\S{1,64}))?[ \t]*",
    re.IGNORECASE,
)


def recognise(text: str) -> bool:
    """Return whether the text is the output of `show_gids`."""
    return any(_LINE.fullmatch(line) for line in text.splitlines() if line.count(":") == 7)


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports with their GIDs.

    The tool does not distinguish GIDs of InfiniBand from RoCE v1; only v2 is certainly RoCE.
    """
    tables: dict[tuple[str, int], list[Gid]] = {}
    lines: dict[tuple[str, int], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(":") != 7 or (match := _LINE.fullmatch(line)) is None:
            continue
        name, port, index, gid, address, version, netdev = match.groups()
        key = (name, int(port))
        lines.setdefault(key, number)
        tables.setdefault(key, []).append(
            Gid(
                index=int(index),
                gid=gid.lower(),
                kind=f"RoCE v{version}",
                address=address or mapped_ipv4(gid),
                netdev=netdev or None,
            )
        )
    return tuple(
        Nic(
            name=key[0],
            port=key[1],
            link_layer="Ethernet" if any(gid.kind == "RoCE v2" for gid in table) else NOT_RECORDED,
            netdev=next((gid.netdev for gid in table if gid.netdev), NOT_RECORDED),
            gids=tuple(table),
            evidence=(line_ref(lines[key]),),
        )
        for key, table in tables.items()
    )
