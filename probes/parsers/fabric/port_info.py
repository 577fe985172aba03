"""Parse `ibportstate` and `smpquery portinfo`: the state and the link of one port, by its LID.

If a port has a peer, `ibportstate` prints the peer after `Peer PortInfo`; peers and ports of switches are
left out. Source: rdma-core, infiniband-diags/ibportstate.c and libibmad/dump.c (read 2026-11).
"""

import re

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Unknown, line_ref
from probes.facts import Nic
from probes.parsers.fabric.rdma_words import LANE_GBPS, lane_speed, physical_state, port_state, whole_number

_HEAD = pattern(r"#[ \t]*Port info:.{0,60}?\bLid[ \t]+(\d{1,5})[ \t]+port[ \t]+(\d{1,3})\b.*", re.IGNORECASE)
_ROLE = pattern(r"(?:Initial |After \w{1,20} |New )?(CA(?:/RT)?|Switch|Peer|RT) PortInfo:[ \t]*")
_FIELD = pattern(r"(Link\w{4,24}|PhysLinkState|Lid|SMLid):\.*[ \t]*(\S.{0,120})")
_LANES = pattern(r"(\d{1,2})[Xx]")
_GBPS = pattern(r"(\d{1,3}(?:\.\d{1,8})?) Gbps")
_SPEEDS = ("LinkSpeedExt2Active", "LinkSpeedExtActive", "LinkSpeedActive")
"""Fields of the speed; each later generation has its own field."""


def recognise(text: str) -> bool:
    return "Port info:" in text and any(
        _HEAD.fullmatch(line.strip()) is not None for line in text.splitlines()[:20_000] if len(line) < 300
    )


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports of hosts; the tool prints no device names, so `name` is empty and `lid` is set."""
    ports: dict[tuple[int, int], tuple[int, dict[str, str]]] = {}
    fields: dict[str, str] | None = None
    role = "CA"
    for number, line in enumerate(text.splitlines()[:20_000], 1):
        bare = line.strip()[:300]
        if (match := _ROLE.fullmatch(bare)) is not None:
            role = match[1]
        elif (head := _HEAD.fullmatch(bare)) is not None:
            is_own = role not in ("Switch", "Peer")
            _, fields = ports.setdefault((int(head[1]), int(head[2])), (number, {})) if is_own else (0, None)
        elif fields is not None and (field := _FIELD.fullmatch(bare)) is not None:
            fields[field[1]] = field[2].strip()
    return tuple(_nic(lid, port, line, values) for (lid, port), (line, values) in ports.items() if values)


def _nic(lid: int, port: int, line: int, values: dict[str, str]) -> Nic:
    lanes = _LANES.fullmatch(values.get("LinkWidthActive", ""))
    speed = _speed(values)
    known_rate = lanes is not None and isinstance(speed, str)
    return Nic(
        name="",
        port=port,
        lid=lid,
        link_layer="InfiniBand",
        state=port_state(values["LinkState"]) if "LinkState" in values else NOT_RECORDED,
        physical_state=physical_state(values["PhysLinkState"]) if "PhysLinkState" in values else NOT_RECORDED,
        sm_lid=whole_number(values["SMLid"]) if "SMLid" in values else NOT_RECORDED,
        lanes=int(lanes[1]) if lanes else NOT_RECORDED,
        speed=speed,
        rate_gbps=int(lanes[1]) * LANE_GBPS[str(speed)] if known_rate and lanes else NOT_RECORDED,
        evidence=(line_ref(line),),
    )


def _speed(values: dict[str, str]) -> str | Unknown:
    """Return the name of the active speed; fields of later generations have priority if they have a speed."""
    for name in _SPEEDS:
        word = values.get(name, "")
        rate = _GBPS.search(word)
        if rate is not None:
            return lane_speed(float(rate[1]))
        if word in LANE_GBPS:
            return word
    return NOT_RECORDED
