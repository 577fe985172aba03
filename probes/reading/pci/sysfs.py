"""Read PCI devices from sysfs: GPUs, NVSwitches, NICs and NVMe, and the bridges above GPUs and NICs.

A server's bus may have hundreds of functions; only the class of most of them is read.
"""

from __future__ import annotations

import msgspec

from probes.base.evidence import file_ref
from probes.base.record import NOT_RECORDED, Reason, Unknown, known
from probes.facts import PciDevice, PciKind
from probes.parsers.topology.pci_addresses import normal_address
from probes.parsers.topology.pci_classes import kind_of
from probes.parsers.topology.pci_config import PciConfig, parse_config
from probes.reading.pci import DEVICES, device_path, link_in, pcie_link
from probes.reading.pci import numa_node as numa_node_of
from probes.sources.base import Source, read_text

_BUSES = "/sys/class/pci_bus"
_CANDIDATES = ("01", "02", "03", "06", "0b", "0c", "12", "ff")
"""Base classes of relevant devices (PCI Code and ID Assignment Specification 1.11)."""
_ENDPOINTS = frozenset({"gpu", "accelerator", "nvswitch", "rdma", "ethernet", "nvme"})
_WITH_PATH = frozenset({"gpu", "rdma", "nvswitch"})
"""Kinds whose bridges matter, because peer-to-peer traffic passes them."""
_CONFIGURED = frozenset({"gpu", "rdma", "nvswitch", "bridge"})
"""Kinds whose configuration space is read."""


def pci_devices(source: Source) -> tuple[PciDevice, ...] | Unknown:
    """Return the relevant devices in the order of their addresses; none on a kernel without PCI."""
    addresses = source.names(DEVICES)
    if isinstance(addresses, Unknown):
        if addresses.reason is Reason.TOOL_MISSING:
            return ()
        return _by_bus(source) or addresses
    devices: dict[str, PciDevice] = {}
    above: dict[str, None] = {}
    for address in addresses:
        device = _endpoint(source, address)
        if device is None:
            continue
        path = device_path(source, address)
        chain = () if isinstance(path, Unknown) else bridges_of(path)
        devices[address] = msgspec.structs.replace(device, parent=_parent(path, chain))
        if device.kind in _WITH_PATH:
            above.update(dict.fromkeys(chain))
    for address in above:
        if address not in devices and address in addresses:
            chain = bridges_of(str(device_path(source, address)))
            devices[address] = _complete(source, address, kind="bridge", parent=chain[-1] if chain else None)
    return tuple(devices[address] for address in sorted(devices))


def bridges_of(path: str) -> tuple[str, ...]:
    """Return the bridges above a device on its canonical path, starting at the host."""
    parts = [normal_address(part) for part in path.split("/")[:-1]]
    return tuple(part for part in parts if not isinstance(part, Unknown))


def _parent(path: str | Unknown, chain: tuple[str, ...]) -> str | Unknown | None:
    if isinstance(path, Unknown):
        return path
    return chain[-1] if chain else None


def _endpoint(source: Source, address: str) -> PciDevice | None:
    """Return the device at `address` if it is relevant."""
    folder = f"{DEVICES}/{address}"
    code = read_text(source, f"{folder}/class")
    if known(code):
        if code[2:4] not in _CANDIDATES:
            return None
        class_code: str | Unknown = code[2:6]
        vendor, device = read_text(source, f"{folder}/vendor"), read_text(source, f"{folder}/device")
        device_id = (
            vendor if isinstance(vendor, Unknown) else f"{vendor[2:]}:{device[2:] if known(device) else ''}"
        )
        kind = kind_of(class_code, device_id)
    else:
        class_code, device_id, kind = code, NOT_RECORDED, "other"
    if kind == "other" or isinstance(code, Unknown):
        kind = _kind_by_folder(source, folder, address) or kind
    if kind not in _ENDPOINTS:
        return None
    return _complete(source, address, kind=kind, class_code=class_code, device_id=device_id)


def _kind_by_folder(source: Source, folder: str, address: str) -> PciKind | None:
    """Return the kind in a stored tree without ids, from the folders that drivers create."""
    if source.is_live:
        return None
    folders: tuple[tuple[str, PciKind], ...] = (("infiniband", "rdma"), ("nvme", "nvme"), ("net", "ethernet"))
    for name, kind in folders:
        if known(source.names(f"{folder}/{name}")):
            return kind
    return "gpu" if known(source.names(f"/proc/driver/nvidia/gpus/{address}")) else None


def _complete(source: Source, address: str, **given: object) -> PciDevice:
    folder = f"{DEVICES}/{address}"
    kind = str(given["kind"])
    driver, group = source.link(f"{folder}/driver"), source.link(f"{folder}/iommu_group")
    config = _config(source, folder) if kind in _CONFIGURED else PciConfig()
    fields: dict[str, object] = {
        "bus_id": address,
        "class_code": NOT_RECORDED,
        "driver": _absent(driver) if isinstance(driver, Unknown) else driver.rpartition("/")[2],
        "numa_node": numa_node_of(source, address),
        "pcie": pcie_link(source, address),
        "max_payload_bytes": config.max_payload_bytes,
        "max_payload_supported_bytes": config.max_payload_supported_bytes,
        "max_read_request_bytes": config.max_read_request_bytes,
        "acs": config.acs,
        "aer_correctable": _errors(source, f"{folder}/aer_dev_correctable", "TOTAL_ERR_COR"),
        "aer_nonfatal": _errors(source, f"{folder}/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
        "aer_fatal": _errors(source, f"{folder}/aer_dev_fatal", "TOTAL_ERR_FATAL"),
        "iommu_group_type": _absent(group)
        if isinstance(group, Unknown)
        else read_text(source, f"{group}/type"),
        "is_virtual_function": _is_virtual(source, folder)
        if kind in ("rdma", "ethernet", "gpu")
        else NOT_RECORDED,
        "evidence": (file_ref(folder),),
    }
    return PciDevice(**{**fields, **given})  # type: ignore[arg-type]


def _absent(unknown: Unknown) -> Unknown | None:
    """Return None for a link that does not exist; Unknown if the source could not read it."""
    return None if unknown.reason is Reason.TOOL_MISSING else unknown


def _is_virtual(source: Source, folder: str) -> bool | Unknown:
    physical = source.link(f"{folder}/physfn")
    if isinstance(physical, Unknown):
        return False if physical.reason is Reason.TOOL_MISSING else physical
    return True


def _config(source: Source, folder: str) -> PciConfig:
    data = source.read(f"{folder}/config")
    if isinstance(data, Unknown):
        return PciConfig(
            max_payload_bytes=data, max_payload_supported_bytes=data, max_read_request_bytes=data, acs=data
        )
    return parse_config(data)


def _errors(source: Source, path: str, total: str) -> int | Unknown:
    """Return the kernel's total in a file of error counters; a device without AER has no such file."""
    text = read_text(source, path)
    if isinstance(text, Unknown):
        return Unknown(Reason.NOT_SUPPORTED, "no AER") if text.reason is Reason.TOOL_MISSING else text
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == total and value.strip().isdecimal() and len(value) < 19:
            return int(value)
    return Unknown(Reason.UNPARSABLE, f"{path} has no {total}")


def _by_bus(source: Source) -> tuple[PciDevice, ...]:
    """Return the devices of a copy of /sys that has only the tree of buses; their kinds are unknown."""
    devices: dict[str, PciDevice] = {}
    buses = source.names(_BUSES)
    for bus in () if isinstance(buses, Unknown) else buses:
        names = source.names(f"{_BUSES}/{bus}/device")
        for name in () if isinstance(names, Unknown) else names:
            address = normal_address(name)
            if not isinstance(address, Unknown):
                folder = f"{_BUSES}/{bus}/device/{name}"
                devices[address] = PciDevice(
                    bus_id=address, kind="other", pcie=link_in(source, folder), evidence=(file_ref(folder),)
                )
    return tuple(devices[address] for address in sorted(devices))
