"""Parse short lists of RDMA ports: `ibdev2netdev`, `rdma link`, `show_gids`, `ibstatus` and `perfquery`.

`ibstatus` is a shell script that prints the port files of sysfs. `show_gids` belongs to the vendor's driver
package. `perfquery` prints the counters of ports by the LID of their node: -x adds the 64-bit counters, and
-E adds the details of errors.
"""

import itertools
import re

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref
from probes.facts import Gid, Nic, counts
from probes.parsers.fabric.infiniband_files import port_link_layer, port_word
from probes.parsers.fabric.rdma_words import (
    guid,
    long_gid,
    mapped_ipv4,
    or_missing,
    physical_state,
    port_rate,
    port_state,
    whole_number,
)
from probes.parsers.topology.pci_addresses import normal_address

_IBDEV2NETDEV_LINE = pattern(
    r"[ \t]*(?:([0-9a-f:]{5,13}\.[0-7])[ \t]+)?([A-Za-z][\w.-]{0,63})[ \t]+"
    r"(?:\(([^)\n]{1,60})\)[ \t]([^\n]{1,300}?)[ \t])?"
    r"port[ \t]+(\d{1,3})[ \t]+(?:\(([A-Z_ ]{2,20})\)[ \t]*)?"
    r"==>[ \t]*(\S{1,64})[ \t]*\((Up|Down)\)[ \t]*(?:#.*)?",
    re.IGNORECASE,
)
_FIRMWARE = pattern(r"\bfw ([\w.]{3,30})")
_LONGEST = 600

_RDMA_LINK_HEAD = pattern(
    r"(?:link[ \t]+|\d{1,4}/\d{1,4}:[ \t]*)([\w.-]{1,64})/(\d{1,3}):?[ \t]+((?:subnet_prefix|state)[ \t].*)"
)
_KEYS = frozenset(
    {"subnet_prefix", "lid", "sm_lid", "lmc", "state", "physical_state", "netdev", "netdev_index", "caps"}
)

_SHOW_GIDS_LINE = pattern(
    r"[ \t]*([A-Za-z][\w.-]{0,63})[ \t]+(\d{1,3})[ \t]+(\d{1,4})[ \t]+((?:[0-9a-f]{4}:){7}[0-9a-f]{4})"
    r"(?:[ \t]+(\d{1,3}(?:\.\d{1,3}){3}))?[ \t]+v([12])(?:[ \t]+(\S{1,64}))?[ \t]*",
    re.IGNORECASE,
)

_IBSTATUS_HEAD = pattern(
    r"[ \t]*Infiniband device '([^'\n]{1,64})' port (\d{1,3}) status:[ \t]*", re.IGNORECASE
)
_MISSING = Unknown(Reason.NOT_RECORDED, "not in the output of ibstatus")

_PERFQUERY_HEAD = pattern(
    r"#[ \t]*Port[\w ]{0,40}[Cc]ounters:[ \t]*(?:Lid|DR path slid \d+; dlid \d+;[^\n]{0,60}?Lid)[ \t]+"
    r"(\d{1,5})[ \t]+port[ \t]+(\d{1,3})\b.*"
)
_FIELD = pattern(r"([A-Z][A-Za-z0-9]{3,60}):\.*(\d{1,20}|0x[0-9a-fA-F]{1,16})")
_NAMES = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "VL15Dropped": "VL15_dropped",
    "PortXmitPkts": "port_xmit_packets",
    "PortRcvPkts": "port_rcv_packets",
}
"""Names of counters in sysfs that differ from the tool's own words with underscores."""
_NO_COUNTERS = frozenset({"PortSelect", "CounterSelect", "CounterSelect2"})
_WORD = pattern(r"[A-Z]+(?![a-z])\d*|[A-Z][a-z0-9]*")


def recognise_ibdev2netdev(text: str) -> bool:
    return "==>" in text and any(_match(line) for line in text.splitlines())


def parse_ibdev2netdev(text: str) -> tuple[Nic, ...]:
    """Return the ports with their network interfaces; with -v also PCI address, type and firmware."""
    matches = ((number, _match(line)) for number, line in enumerate(text.splitlines(), 1))
    return tuple(_ibdev2netdev_nic(number, match) for number, match in matches if match is not None)


def _match(line: str) -> re.Match[str] | None:
    return _IBDEV2NETDEV_LINE.fullmatch(line) if "==>" in line and len(line) <= _LONGEST else None


def _ibdev2netdev_nic(line: int, match: re.Match[str]) -> Nic:
    address, name, part, words, port, state, netdev, updown = match.groups()
    firmware = _FIRMWARE.search(words or "")
    return Nic(
        name=name,
        port=int(port),
        state=port_state(state) if state else NOT_RECORDED,
        device_type=part.partition(" ")[0] if part else NOT_RECORDED,
        firmware_version=firmware[1] if firmware else NOT_RECORDED,
        pci_bus_id=or_missing(normal_address(address or "")),
        netdev=netdev,
        netdev_up=updown.lower() == "up",
        evidence=(line_ref(line),),
    )


def recognise_rdma_link(text: str) -> bool:
    return ("state " in text or "subnet_prefix" in text) and any(
        _RDMA_LINK_HEAD.match(line) for line in text.splitlines()
    )


def parse_rdma_link(text: str) -> tuple[Nic, ...]:
    """Return the ports; the output of a port may have several lines."""
    blocks: list[tuple[str, int, int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _RDMA_LINK_HEAD.match(line)) is not None:
            blocks.append((match[1], int(match[2]), number, match[3].split()))
        elif blocks and line[:1].isspace():
            blocks[-1][3].extend(line.split())
    return tuple(_rdma_link_nic(*block) for block in blocks)


def _rdma_link_nic(name: str, port: int, line: int, words: list[str]) -> Nic:
    values = {key: value for key, value in itertools.pairwise(words) if key in _KEYS and value not in _KEYS}
    return Nic(
        name=name,
        port=port,
        link_layer="InfiniBand" if "subnet_prefix" in values else NOT_RECORDED,
        state=port_state(values["state"]) if "state" in values else NOT_RECORDED,
        physical_state=physical_state(values["physical_state"])
        if "physical_state" in values
        else NOT_RECORDED,
        lid=whole_number(values["lid"]) if "lid" in values else NOT_RECORDED,
        sm_lid=whole_number(values["sm_lid"]) if "sm_lid" in values else NOT_RECORDED,
        netdev=values.get("netdev", NOT_RECORDED),
        evidence=(line_ref(line),),
    )


def recognise_show_gids(text: str) -> bool:
    return any(_SHOW_GIDS_LINE.fullmatch(line) for line in text.splitlines() if line.count(":") == 7)


def parse_show_gids(text: str) -> tuple[Nic, ...]:
    """Return the ports with their GIDs.

    The tool does not distinguish GIDs of InfiniBand from RoCE v1; only v2 is certainly RoCE.
    """
    tables: dict[tuple[str, int], list[Gid]] = {}
    lines: dict[tuple[str, int], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(":") != 7 or (match := _SHOW_GIDS_LINE.fullmatch(line)) is None:
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


def recognise_ibstatus(text: str) -> bool:
    return "' port " in text and any(_IBSTATUS_HEAD.fullmatch(line) for line in text.splitlines())


def parse_ibstatus(text: str) -> tuple[Nic, ...]:
    """Return the ports, even if the output ends early."""
    blocks: list[tuple[str, int, int, dict[str, str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _IBSTATUS_HEAD.fullmatch(line)) is not None:
            blocks.append((match[1], int(match[2]), number, {}))
        elif blocks:
            name, colon, value = line.strip().partition(":")
            if colon:
                blocks[-1][3].setdefault(name, value.strip())
    return tuple(_ibstatus_nic(*block) for block in blocks)


def _ibstatus_nic(name: str, port: int, line: int, values: dict[str, str]) -> Nic:
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


def recognise_perfquery(text: str) -> bool:
    return "ounters: " in text and any(
        line.startswith("#") and _PERFQUERY_HEAD.fullmatch(line) for line in text.splitlines()
    )


def parse_perfquery(text: str) -> tuple[Nic, ...]:
    """Return the ports with their counters by sysfs names.

    The tool prints no device names, so `name` is empty and `lid` is set.
    """
    ports: dict[tuple[int, int], tuple[int, dict[str, int]]] = {}
    current: dict[str, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        head, field = _PERFQUERY_HEAD.fullmatch(line), _FIELD.fullmatch(line.strip())
        if head is not None:
            _, current = ports.setdefault((int(head[1]), int(head[2])), (number, {}))
        elif line.startswith("#"):
            current = None
        elif current is not None and field is not None and field[1] not in _NO_COUNTERS:
            value = whole_number(field[2])
            if not isinstance(value, Unknown):
                current.setdefault(_sysfs_name(field[1]), value)
    return tuple(
        Nic(name="", port=port, lid=lid, counters=counts(values), evidence=(line_ref(line),))
        for (lid, port), (line, values) in ports.items()
        if values
    )


def _sysfs_name(name: str) -> str:
    return _NAMES.get(name) or "_".join(word.lower() for word in _WORD.findall(name))
