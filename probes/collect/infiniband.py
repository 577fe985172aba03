"""InfiniBand, RoCE and EFA ports from sysfs; from `ibstat` where only that was recorded."""

from __future__ import annotations

import msgspec

from probes.collecting import CollectOptions
from probes.evidence import file_ref
from probes.facts import Nic
from probes.outputs import outputs
from probes.parsers.infiniband import parse_ibstat, port_link_layer, port_rate_gbps, port_word
from probes.pci import DEVICES, numa_node, pcie_link
from probes.rdma import RdmaDevice, rdma_devices
from probes.record import EvidenceRef, Reason, Unknown
from probes.sources.base import Source, read_int, read_text

_IBSTAT = ("ibstat",)


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`nics`: one record per port."""
    devices = rdma_devices(source)
    if isinstance(devices, Unknown):
        return {"nics": _by_ibstat(source, devices)}
    return {"nics": tuple(nic for device in devices for nic in _ports(source, device))}


def _by_ibstat(source: Source, silence: Unknown) -> tuple[Nic, ...] | Unknown:
    if silence.reason is not Reason.NOT_RECORDED:
        return silence
    # It ends with an error when one device vanishes, after it has told about the others.
    found = outputs(source, "ibstat", _IBSTAT, even_failed=True)
    if isinstance(found, Unknown):
        return silence
    nics = parse_ibstat(found[0].text)
    return tuple(msgspec.structs.replace(nic, evidence=(found[0].evidence,)) for nic in nics) or silence


def _ports(source: Source, device: RdmaDevice) -> tuple[Nic, ...]:
    folder = device.folder
    address = device.pci_bus_id
    common = Nic(
        name=device.name,
        device_type=_device_type(source, folder),
        firmware_version=read_text(source, f"{folder}/fw_ver"),
        pci_bus_id=address,
        numa_node=numa_node(source, address),
        pcie=pcie_link(source, address),
        evidence=_evidence(folder, address),
    )
    numbers = source.names(f"{folder}/ports")
    if isinstance(numbers, Unknown):
        return (msgspec.structs.replace(common, link_layer=numbers, state=numbers, physical_state=numbers, rate_gbps=numbers),)
    return tuple(_port(source, common, device, int(number)) for number in sorted(numbers, key=len) if number.isdecimal())


def _port(source: Source, common: Nic, device: RdmaDevice, number: int) -> Nic:
    port = f"{device.folder}/ports/{number}"
    state, physical = read_text(source, f"{port}/state"), read_text(source, f"{port}/phys_state")
    rate, layer = read_text(source, f"{port}/rate"), read_text(source, f"{port}/link_layer")
    return msgspec.structs.replace(
        common,
        port=number,
        link_layer=layer if isinstance(layer, Unknown) else port_link_layer(layer),
        state=state if isinstance(state, Unknown) else port_word(state),
        physical_state=physical if isinstance(physical, Unknown) else port_word(physical),
        rate_gbps=rate if isinstance(rate, Unknown) else port_rate_gbps(rate),
        netdev=_netdev(source, device, number),
    )


def _evidence(folder: str, address: str | Unknown) -> tuple[EvidenceRef, ...]:
    port = file_ref(folder)
    return (port,) if isinstance(address, Unknown) else (port, file_ref(f"{DEVICES}/{address}"))


def _device_type(source: Source, folder: str) -> str | Unknown:
    """The vendor's part name; the driver's name for devices without one (EFA)."""
    part = read_text(source, f"{folder}/hca_type")
    if not isinstance(part, Unknown):
        return part
    driver = source.link(f"{folder}/device/driver")
    return part if isinstance(driver, Unknown) else driver.rpartition("/")[2]


def _netdev(source: Source, device: RdmaDevice, port: int) -> str | Unknown | None:
    """The network interface of a port: that of its first GID (which knows bonds), else the device's one of that port."""
    by_gid = read_text(source, f"{device.folder}/ports/{port}/gid_attrs/ndevs/0")
    if not isinstance(by_gid, Unknown) and by_gid:
        return by_gid
    known = not isinstance(device.pci_bus_id, Unknown)
    folder = f"{DEVICES}/{device.pci_bus_id}/net" if known else f"{device.folder}/device/net"
    names = source.names(folder)
    if isinstance(names, Unknown):
        return None if names.reason is Reason.TOOL_MISSING else names
    on_port = [name for name in names if read_int(source, f"{folder}/{name}/dev_port") == port - 1]
    return on_port[0] if on_port else None
