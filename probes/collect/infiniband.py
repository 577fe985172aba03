"""Collect InfiniBand, RoCE and EFA ports from sysfs, and from given texts."""

from collections.abc import Callable

import msgspec

from probes.base.record import (
    DEEP_ONLY,
    Reason,
    Unknown,
    file_ref,
    items_of,
    map_known,
    when_missing,
)
from probes.collect.collecting import CollectOptions
from probes.facts import Count, Gid, Nic
from probes.parsers.fabric.infiniband_files import port_link_layer, port_word
from probes.parsers.fabric.rdma_words import guid, mapped_ipv4, port_rate, whole_number
from probes.reading.merging import merge_nics
from probes.reading.pci import (
    DEVICES,
    RdmaDevice,
    interface_is_up,
    numa_node,
    pcie_link,
    physical_function,
    rdma_devices,
)
from probes.reading.texts import NICS, read_all, records_of, unread_of
from probes.sources.base import Source, read_int, read_text

_NET = "/sys/class/net"
_VERBS = "/dev/infiniband"
COUNTERS = (
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/port_xmit_discards",
    "counters/excessive_buffer_overrun_errors",
    "counters/local_link_integrity_errors",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_sequence",
    "hw_counters/roce_slow_restart",
    "hw_counters/rx_icrc_encapsulated",
)
"""Counters that checks use; only these are read, because each read queries the card's firmware."""
_ZEROS_AT_END = 8
"""Consecutive empty entries that end a table.

GID and partition tables have hundreds of slots, filled from the front.
"""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `nics`: one record per port."""
    devices = rdma_devices(source)
    kernel_ports = tuple(nic for device in items_of(devices) for nic in _ports(source, device))
    if source.is_live and not (options.deep and kernel_ports):
        quick = tuple(msgspec.structs.replace(nic, mtu=DEEP_ONLY) for nic in kernel_ports)
        return {"nics": devices if isinstance(devices, Unknown) else quick}
    texts = read_all(source, (reader for reader in NICS if reader.is_live or not source.is_live))
    nics, contradictions = merge_nics([*kernel_ports, *records_of(texts)])
    # An empty result is valid only if the folder of RDMA devices could be read.
    answer = devices if isinstance(devices, Unknown) and not nics else nics
    return {"nics": answer, "contradictions": contradictions, "unread": unread_of(texts)}


def _ports(source: Source, device: RdmaDevice) -> tuple[Nic, ...]:
    folder, address = device.folder, device.pci_bus_id
    places = (folder,) if isinstance(address, Unknown) else (folder, f"{DEVICES}/{address}")
    owner = map_known(address, lambda address: physical_function(source, address))
    common = Nic(
        name=device.name,
        device_type=_device_type(source, folder),
        firmware_version=read_text(source, f"{folder}/fw_ver"),
        board_id=read_text(source, f"{folder}/board_id"),
        node_guid=map_known(read_text(source, f"{folder}/node_guid"), guid),
        pci_bus_id=address,
        numa_node=numa_node(source, address),
        pcie=pcie_link(source, address),
        has_verbs_device=_has_verbs_device(source, device),
        # A function that a hypervisor passes through has no physical function on this host.
        is_virtual_function=map_known(owner, lambda owner: owner is not None),
        evidence=tuple(map(file_ref, places)),
    )
    numbers = source.names(f"{folder}/ports")
    if isinstance(numbers, Unknown):
        return (
            msgspec.structs.replace(
                common, link_layer=numbers, state=numbers, physical_state=numbers, rate_gbps=numbers
            ),
        )
    return tuple(
        _port(source, common, device, int(number))
        for number in sorted(numbers, key=len)
        if number.isdecimal()
    )


def _port(source: Source, common: Nic, device: RdmaDevice, number: int) -> Nic:
    port = f"{device.folder}/ports/{number}"
    rate_text = read_text(source, f"{port}/rate")
    rate, lanes, speed = (rate_text,) * 3 if isinstance(rate_text, Unknown) else port_rate(rate_text)
    layer = map_known(read_text(source, f"{port}/link_layer"), port_link_layer)
    netdev = _netdev(source, device, number)
    gids = _gids(source, port, layer)
    first = next((gid.gid for gid in items_of(gids) if gid.index == 0), None)
    return msgspec.structs.replace(
        common,
        port=number,
        link_layer=layer,
        state=map_known(read_text(source, f"{port}/state"), port_word),
        physical_state=map_known(read_text(source, f"{port}/phys_state"), port_word),
        rate_gbps=rate,
        lanes=lanes,
        speed=speed,
        # The last 64 bits of the first GID, which the kernel derives from the port's GUID.
        port_guid=guid(first.replace(":", "")[-16:]) if first else common.port_guid,
        lid=map_known(read_text(source, f"{port}/lid"), whole_number),
        sm_lid=map_known(read_text(source, f"{port}/sm_lid"), whole_number),
        gids=gids,
        pkeys=_pkeys(source, port),
        counters=_counters(source, port),
        traffic_class=_traffic_class(source, device.folder, number, layer),
        netdev=netdev,
        netdev_up=map_known(netdev, lambda netdev: netdev and _netdev_up(source, device, netdev)),
    )


def _device_type(source: Source, folder: str) -> str | Unknown:
    """Return the vendor's part name; for devices without a part name (EFA), the driver's name."""
    part = read_text(source, f"{folder}/hca_type")
    if not isinstance(part, Unknown):
        return part
    driver = source.link(f"{folder}/device/driver")
    return part if isinstance(driver, Unknown) else driver.rpartition("/")[2]


def _has_verbs_device(source: Source, device: RdmaDevice) -> bool | Unknown:
    """Return whether the device's file is in /dev; a container may lack it."""
    own = source.names(f"{device.folder}/device/infiniband_verbs")
    files = source.names(_VERBS)
    if isinstance(own, Unknown):
        return own
    return map_known(when_missing(files, ()), lambda files: not set(own).isdisjoint(files))


def _netdev(source: Source, device: RdmaDevice, port: int) -> str | Unknown | None:
    """Return the network interface of a port.

    The entry of the first GID names the interface (also for bonds); otherwise the device's interface for this
    port is used.
    """
    by_gid = read_text(source, f"{device.folder}/ports/{port}/gid_attrs/ndevs/0")
    if not isinstance(by_gid, Unknown) and by_gid:
        return by_gid
    folder = _net_folder(device)
    names = when_missing(source.names(folder), ())
    if isinstance(names, Unknown):
        return names
    return next((name for name in names if read_int(source, f"{folder}/{name}/dev_port") == port - 1), None)


def _net_folder(device: RdmaDevice) -> str:
    known = not isinstance(device.pci_bus_id, Unknown)
    return f"{DEVICES}/{device.pci_bus_id}/net" if known else f"{device.folder}/device/net"


def _netdev_up(source: Source, device: RdmaDevice, netdev: str) -> bool | Unknown:
    folder = f"{_NET}/{netdev}"
    if isinstance(read_text(source, f"{folder}/operstate"), Unknown):
        folder = f"{_net_folder(device)}/{netdev}"
    return interface_is_up(source, folder)


def _gids(source: Source, port: str, layer: str | Unknown) -> tuple[Gid, ...] | Unknown:
    slots = _filled_slots(source, f"{port}/gids", lambda gid: not gid.strip("0:") or not _is_gid(gid))
    return map_known(
        slots, lambda slots: tuple(_gid(source, port, index, gid, layer) for index, gid in slots)
    )


def _filled_slots(
    source: Source, folder: str, is_empty: Callable[[str], bool]
) -> list[tuple[int, str]] | Unknown:
    """Return index and text of the filled slots of a table, up to its empty end."""
    names = source.names(folder)
    if isinstance(names, Unknown):
        return names
    slots: list[tuple[int, str]] = []
    empty = 0
    for index in sorted(int(name) for name in names if name.isdecimal() and len(name) < 6):
        text = read_text(source, f"{folder}/{index}")
        if not isinstance(text, Unknown) and not is_empty(text):
            slots.append((index, text))
            empty = 0
            continue
        empty += 1
        if empty == _ZEROS_AT_END:
            break
    return slots


def _is_gid(text: str) -> bool:
    return text.count(":") == 7 and set(text.lower()) <= set("0123456789abcdef:")


def _gid(source: Source, port: str, index: int, gid: str, layer: str | Unknown) -> Gid:
    if layer == "InfiniBand":
        return Gid(index=index, gid=gid, kind="IB", netdev=None)
    kind = read_text(source, f"{port}/gid_attrs/types/{index}")
    return Gid(
        index=index,
        gid=gid,
        kind=map_known(kind, lambda kind: kind.removeprefix("IB/")),
        address=mapped_ipv4(gid) if ":ffff:" in gid else None,
        netdev=read_text(source, f"{port}/gid_attrs/ndevs/{index}"),
    )


def _pkeys(source: Source, port: str) -> tuple[str, ...] | Unknown:
    slots = _filled_slots(source, f"{port}/pkeys", lambda key: key == "0x0000")
    return map_known(slots, lambda slots: tuple(key for _, key in slots))


def _counters(source: Source, port: str) -> tuple[Count, ...] | Unknown:
    """Return the existing counters; a port without performance management has `N/A (no PMA)` in each."""
    read = {path.rpartition("/")[2]: read_text(source, f"{port}/{path}") for path in COUNTERS}
    numbers = {name: map_known(text, whole_number) for name, text in read.items()}
    counters = tuple(
        Count(name=name, value=number) for name, number in numbers.items() if not isinstance(number, Unknown)
    )
    if counters:
        return counters
    if any(isinstance(text, str) and text.startswith("N/A") for text in read.values()):
        return Unknown(Reason.NOT_SUPPORTED, "the port has no counters")
    return next(number for number in numbers.values() if isinstance(number, Unknown))


def _traffic_class(source: Source, folder: str, port: int, layer: str | Unknown) -> int | Unknown:
    """Return the class that the vendor's driver forces on all RoCE traffic: `Global tclass=106`."""
    if layer != "Ethernet":
        return Unknown(Reason.NOT_SUPPORTED, "only RoCE has traffic classes")
    text = read_text(source, f"{folder}/tc/{port}/traffic_class")
    return map_known(text, lambda text: whole_number(text.rpartition("=")[2]) if text else 0)
