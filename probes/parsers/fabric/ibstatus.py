"""Parse `ibstatus`, the shell script that prints the port files of sysfs."""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import Reason, Unknown
from probes.facts import Gid, Nic
from probes.parsers.fabric.infiniband_files import port_link_layer, port_word
from probes.parsers.fabric.rdma_words import guid, long_gid, port_rate, whole_number

_HEAD = re.compile(r"[ \t]*Infiniband device '([^'\n]{1,64})' port (\d{1,3}) status:[ \t]*", re.IGNORECASE)
_MISSING = Unknown(Reason.NOT_RECORDED, "not in the output of ibstatus")


def recognise(text: str) -> bool:
    """Return whether the text is the output of `ibstatus`."""
    return "' port " in text and any(_HEAD.fullmatch(line) for line in text.splitlines())


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports, also if the output ends early."""
    blocks: list[tuple[str, int, int, dict[str, str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _HEAD.fullmatch(line)) is not None:
            blocks.append((match[1], int(match[2]), number, {}))
        elif blocks:
            name, colon, value = line.strip().partition(":")
            if colon:
                blocks[-1][3].setdefault(name, value.strip())
    return tuple(_nic(*block) for block in blocks)


def _nic(name: str, port: int, line: int, values: dict[str, str]) -> Nic:
    rate, lanes, speed = port_rate(values["rate"]) if "rate" in values else (_MISSING, _MISSING, _MISSING)
    layer = port_link_layer(values["link_layer"]) if "link_layer" in values else _MISSING
    gid = long_gid(values["default gid"]) if "default gid" in values else _MISSING
    return Nic(
        name=name,
        port=port,
        link_layer=layer,
        state=port_word(values["state"]) if "state" in values else _MISSING,
        physical_state=port_word(values["phys state"]) if "phys state" in values else _MISSING,
        rate_gbps=rate,
        lanes=lanes,
        speed=speed,
        # On InfiniBand the first GID consists of the subnet's prefix and the port's GUID.
        port_guid=guid(gid[-19:]) if isinstance(gid, str) and layer == "InfiniBand" else _MISSING,
        lid=whole_number(values["base lid"]) if "base lid" in values else _MISSING,
        sm_lid=whole_number(values["sm lid"]) if "sm lid" in values else _MISSING,
        gids=(Gid(index=0, gid=gid, kind="IB"),)
        if isinstance(gid, str) and layer == "InfiniBand"
        else _MISSING,
        evidence=(line_ref(line),),
    )
