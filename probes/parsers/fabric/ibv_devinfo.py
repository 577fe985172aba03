"""Parse `ibv_devinfo`, plain or with -v."""

import re

from probes.base.record import Reason, Unknown, line_ref, value_or
from probes.facts import Gid, Nic
from probes.parsers.fabric.infiniband_files import port_link_layer
from probes.parsers.fabric.rdma_words import (
    guid,
    lane_speed,
    long_gid,
    mapped_ipv4,
    physical_state,
    port_state,
    whole_number,
)

_HEAD = re.compile(r"[ \t]*hca_id:[ \t]*(\S{1,64})[ \t]*")
_PORT = re.compile(r"[ \t]*port:[ \t]*(\d{1,3})[ \t]*")
_GID = re.compile(r"GID\[[ \t]*(\d{1,4})\]")
_MTU = re.compile(r"(\d{3,5})\b.*")
_WIDTH = re.compile(r"(\d{1,2})X\b.*")
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,4})?) Gbps.*")
_MELLANOX = ("0x02c9", "0x2c9", "0x15b3")
_EFA = "0x1d0f"
_MISSING = Unknown(Reason.NOT_RECORDED, "not in the output of ibv_devinfo")

_Values = dict[str, str]


def recognise(text: str) -> bool:
    return "hca_id:" in text and any(_HEAD.fullmatch(line) for line in text.splitlines())


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports, even if the output ends early or has lost its tabs."""
    nics: list[Nic] = []
    device: _Values = {}
    port: _Values = {}
    gids: list[Gid] = []
    start, has_ports = 0, False

    def finish_port() -> None:
        if {"hca_id", "phys_port_cnt"} <= device.keys() and not has_ports:
            # The device's part of the output ends before its first port, so nothing else is known of the
            # port.
            port["port"] = "1"
        if "port" in port:
            nics.append(_nic(device, port, tuple(gids), start))
        port.clear()
        gids.clear()

    for number, line in enumerate(text.splitlines(), 1):
        if (match := _HEAD.fullmatch(line)) is not None:
            finish_port()
            device, has_ports, start = {"hca_id": match[1]}, False, number
        elif (match := _PORT.fullmatch(line)) is not None and "hca_id" in device:
            if has_ports:
                finish_port()
            port["port"], start, has_ports = match[1], number, True
        else:
            name, colon, value = line.strip().partition(":")
            if (match := _GID.fullmatch(name.strip())) is not None and port:
                gids += _gid(int(match[1]), value)
            elif colon:
                (port if port else device).setdefault(name.strip(), value.strip())
    finish_port()
    return tuple(nics)


def _gid(index: int, text: str) -> list[Gid]:
    """Return an entry of the GID table, such as `fe80::1, RoCE v2`; older versions print no type."""
    address, _, kind = text.strip().partition(",")
    gid = value_or(long_gid(address), "")
    entry = Gid(index=index, gid=gid, kind=kind.strip()[:20] or _MISSING, address=mapped_ipv4(gid))
    return [entry] if gid.strip("0:") else []


def _nic(device: _Values, port: _Values, gids: tuple[Gid, ...], line: int) -> Nic:
    layer = port_link_layer(port["link_layer"]) if "link_layer" in port else _MISSING
    width = _WIDTH.fullmatch(port.get("active_width", ""))
    lane = _SPEED.fullmatch(port.get("active_speed", ""))
    lanes = int(width[1]) if width else _MISSING
    has_guid = gids and gids[0].index == 0 and layer == "InfiniBand"
    return Nic(
        name=device["hca_id"],
        port=int(port["port"]),
        link_layer=layer,
        state=port_state(port["state"]) if "state" in port else _MISSING,
        physical_state=physical_state(port["phys_state"]) if "phys_state" in port else _MISSING,
        rate_gbps=round(lanes * float(lane[1]), 3) if lane and not isinstance(lanes, Unknown) else _MISSING,
        lanes=lanes,
        speed=lane_speed(float(lane[1])) if lane else _MISSING,
        device_type=_device_type(device),
        firmware_version=device.get("fw_ver", _MISSING) or _MISSING,
        board_id=device.get("board_id", _MISSING) or _MISSING,
        node_guid=guid(device["node_guid"]) if "node_guid" in device else _MISSING,
        port_guid=guid(gids[0].gid[-19:]) if has_guid else _MISSING,
        lid=whole_number(port["port_lid"]) if "port_lid" in port else _MISSING,
        sm_lid=whole_number(port["sm_lid"]) if "sm_lid" in port else _MISSING,
        mtu=_mtu(port, "active_mtu"),
        mtu_max=_mtu(port, "max_mtu"),
        gids=_typed(gids, layer) or _MISSING,
        evidence=(line_ref(line),),
    )


def _typed(gids: tuple[Gid, ...], layer: str | Unknown) -> tuple[Gid, ...]:
    """Return the GIDs, with the kind `IB` if the port is InfiniBand."""
    as_infiniband = tuple(Gid(index=gid.index, gid=gid.gid, kind="IB") for gid in gids)
    return as_infiniband if layer == "InfiniBand" else gids


def _device_type(device: _Values) -> str | Unknown:
    """Return the part name as in sysfs; EFA devices only have their driver's name."""
    vendor, part = device.get("vendor_id", "").lower(), whole_number(device.get("vendor_part_id", ""))
    if vendor in _MELLANOX and not isinstance(part, Unknown):
        return f"MT{part}"
    return "efa" if vendor == _EFA else _MISSING


def _mtu(port: _Values, name: str) -> int | Unknown:
    match = _MTU.fullmatch(port.get(name, ""))
    return int(match[1]) if match else _MISSING
