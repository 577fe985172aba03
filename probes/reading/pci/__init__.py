"""Read PCI, RDMA and network devices from sysfs, and the bridges above GPUs, NVSwitches and NICs.

A server's bus may have hundreds of functions; for most of them, only the class is read.
"""

import msgspec

from probes.base.record import (
    NOT_RECORDED,
    Reason,
    Record,
    Unknown,
    file_ref,
    items_of,
    known,
    map_known,
    only_known,
    when_missing,
)
from probes.facts import PciDevice, PcieLink, PciKind
from probes.parsers.topology.pci_addresses import link_generation, link_width, normal_address
from probes.parsers.topology.pci_classes import kind_of
from probes.parsers.topology.pci_config import PciConfig, parse_config
from probes.sources.base import Source, read_int, read_text

DEVICES = "/sys/bus/pci/devices"
_BUSES = "/sys/class/pci_bus"
_RDMA = "/sys/class/infiniband"
_NVIDIA = "10de"
_GPU_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers (PCI Code and ID Assignment Specification 1.11, base class 03h)."""
_CANDIDATES = ("01", "02", "03", "06", "0b", "0c", "12", "ff")
"""Base classes of relevant devices (PCI Code and ID Assignment Specification 1.11)."""
_ENDPOINTS = frozenset({"gpu", "accelerator", "nvswitch", "rdma", "ethernet", "nvme"})
_WITH_PATH = frozenset({"gpu", "rdma", "nvswitch"})
"""Kinds of devices whose bridges are kept, because peer-to-peer traffic passes these bridges."""
_CONFIGURED = frozenset({"gpu", "rdma", "nvswitch", "bridge"})
"""Kinds whose configuration space is read."""
_IFF_UP = 0x1
_NO_AER = Unknown(Reason.NOT_SUPPORTED, "no AER")


def nvidia_gpu_addresses(source: Source) -> tuple[str, ...] | Unknown:
    """Return the PCI addresses of NVIDIA GPUs, with or without a working driver."""
    # This file lists the vendor of every device. The classes of hundreds of devices are read only if
    # NVIDIA is among the vendors.
    listing = read_text(source, "/proc/bus/pci/devices")
    if not isinstance(listing, Unknown) and not any(
        line.split("\t", 2)[1].startswith(_NVIDIA) for line in listing.splitlines() if "\t" in line
    ):
        return ()
    addresses = when_missing(source.names(DEVICES), ())  # a kernel without PCI has no such directory
    if isinstance(addresses, Unknown):
        return addresses
    gpus: list[str] = []
    for address in addresses:
        is_gpu = _is_nvidia_gpu(source, address)
        if isinstance(is_gpu, Unknown):
            return is_gpu
        if is_gpu:
            gpus.append(address)
    return tuple(gpus)


def _is_nvidia_gpu(source: Source, address: str) -> bool | Unknown:
    vendor = read_text(source, f"{DEVICES}/{address}/vendor")
    if vendor != f"0x{_NVIDIA}":
        return map_known(vendor, lambda _: False)
    device_class = read_text(source, f"{DEVICES}/{address}/class")
    return map_known(device_class, lambda device_class: device_class.startswith(_GPU_CLASSES))


def numa_node(source: Source, address: str | Unknown) -> int | Unknown | None:
    """Return the NUMA node of a device; None if the platform reports no node (-1)."""
    node = map_known(address, lambda address: read_int(source, f"{DEVICES}/{address}/numa_node"))
    return None if node == -1 else node


def cpu_affinity(source: Source, address: str | Unknown) -> str | Unknown:
    """Return the CPUs near a device, in the kernel's notation."""
    return map_known(address, lambda address: read_text(source, f"{DEVICES}/{address}/local_cpulist"))


def device_path(source: Source, address: str | Unknown) -> str | Unknown:
    """Return the canonical sysfs path of a device, which contains the bridges above the device."""
    return map_known(address, lambda address: source.link(f"{DEVICES}/{address}"))


def address_of(path: str | Unknown) -> str | Unknown:
    """Return the PCI address at the end of a canonical device path."""
    if isinstance(path, Unknown):
        return path
    address = normal_address(path.rpartition("/")[2])
    return address if known(address) else Unknown(Reason.NOT_SUPPORTED, f"{path} is not a PCI device")


def physical_function(source: Source, address: str) -> str | Unknown | None:
    """Return the physical function of a virtual function; None for other devices."""
    return when_missing(source.link(f"{DEVICES}/{address}/physfn"), None)


def pcie_link(source: Source, address: str | Unknown) -> PcieLink:
    """Return the present and the possible link of a device."""
    if isinstance(address, Unknown):
        return PcieLink(generation=address, generation_max=address, width=address, width_max=address)
    return _link_in(source, f"{DEVICES}/{address}")


def _link_in(source: Source, folder: str) -> PcieLink:
    """Return the link of the device whose files are in `folder`."""
    return PcieLink(
        generation=map_known(read_text(source, f"{folder}/current_link_speed"), link_generation),
        generation_max=map_known(read_text(source, f"{folder}/max_link_speed"), link_generation),
        width=map_known(read_text(source, f"{folder}/current_link_width"), link_width),
        width_max=map_known(read_text(source, f"{folder}/max_link_width"), link_width),
    )


class RdmaDevice(Record, kw_only=True):
    """An RDMA device and its place in sysfs."""

    name: str
    folder: str
    """Folder of the device's own files."""
    path: str | Unknown
    """Canonical path of the hardware below /sys/devices."""
    pci_bus_id: str | Unknown


def rdma_devices(source: Source) -> tuple[RdmaDevice, ...] | Unknown:
    """Return the devices in the order of their names; empty if the kernel has no such class."""
    names = when_missing(source.names(_RDMA), ())
    if isinstance(names, Unknown):
        return _rdma_below_pci(source) or names
    paths = {name: source.link(f"{_RDMA}/{name}/device") for name in names}
    return tuple(
        RdmaDevice(name=name, folder=f"{_RDMA}/{name}", path=path, pci_bus_id=address_of(path))
        for name, path in paths.items()
    )


def _rdma_below_pci(source: Source) -> tuple[RdmaDevice, ...]:
    """Return the devices of a copy of /sys without the class folder; some tools copy only /sys/bus/pci."""
    return tuple(
        RdmaDevice(name=name, folder=folder, path=device_path(source, address), pci_bus_id=address)
        for name, folder, address in names_below_pci(source, "infiniband")
    )


def names_below_pci(source: Source, kind: str) -> list[tuple[str, str, str]]:
    """Return name, folder and PCI address of the devices in a folder that drivers add to PCI devices.

    The folder is `infiniband` or `net`. The result is in the order of the names.
    """
    return sorted(
        (name, f"{DEVICES}/{address}/{kind}/{name}", address)
        for address in items_of(source.names(DEVICES))
        for name in items_of(source.names(f"{DEVICES}/{address}/{kind}"))
    )


def interface_is_up(source: Source, folder: str) -> bool | Unknown:
    """Return whether the network interface with its files in `folder` can carry traffic.

    Drivers without carrier detection report `unknown`; then the administrator's flag counts.
    """
    state = read_text(source, f"{folder}/operstate")
    if state == "unknown":
        return map_known(read_int(source, f"{folder}/flags", 16), lambda flags: bool(flags & _IFF_UP))
    return map_known(state, lambda state: state == "up")


def pci_devices(source: Source) -> tuple[PciDevice, ...] | Unknown:
    """Return the relevant devices in the order of their addresses; empty on a kernel without PCI."""
    addresses = when_missing(source.names(DEVICES), ())
    if isinstance(addresses, Unknown):
        return _by_bus(source) or addresses
    devices: dict[str, PciDevice] = {}
    above: dict[str, None] = {}
    for address in addresses:
        device = _endpoint(source, address)
        if device is None:
            continue
        chain = map_known(device_path(source, address), bridges_of)
        parent = map_known(chain, lambda chain: chain[-1] if chain else None)
        devices[address] = msgspec.structs.replace(device, parent=parent)
        if device.kind in _WITH_PATH:
            above.update(dict.fromkeys(items_of(chain)))
    for address in above:
        if address not in devices and address in addresses:
            chain = bridges_of(str(device_path(source, address)))
            devices[address] = _complete(source, address, kind="bridge", parent=chain[-1] if chain else None)
    return tuple(devices[address] for address in sorted(devices))


def bridges_of(path: str) -> tuple[str, ...]:
    """Return the bridges above a device on its canonical path, starting at the host."""
    return tuple(only_known(map(normal_address, path.split("/")[:-1])))


def _endpoint(source: Source, address: str) -> PciDevice | None:
    """Return the device at `address` if it is relevant."""
    folder = f"{DEVICES}/{address}"
    code = read_text(source, f"{folder}/class")
    device_id: str | Unknown = NOT_RECORDED
    kind: PciKind = "other"
    if known(code):
        if code[2:4] not in _CANDIDATES:
            return None
        vendor, device = read_text(source, f"{folder}/vendor"), read_text(source, f"{folder}/device")
        device_id = map_known(vendor, lambda vendor: f"{vendor[2:]}:{device[2:] if known(device) else ''}")
        kind = kind_of(code[2:6], device_id)
    if kind == "other":
        kind = _kind_by_folder(source, folder, address) or kind
    if kind not in _ENDPOINTS:
        return None
    class_code = map_known(code, lambda code: code[2:6])
    return _complete(source, address, kind=kind, class_code=class_code, device_id=device_id)


def _kind_by_folder(source: Source, folder: str, address: str) -> PciKind | None:
    """Return the kind of a device in a stored tree without ids, from the folders that drivers create."""
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
    driver = when_missing(source.link(f"{folder}/driver"), None)
    group = when_missing(source.link(f"{folder}/iommu_group"), None)
    config = _config(source, folder) if kind in _CONFIGURED else PciConfig()
    fields: dict[str, object] = {
        "bus_id": address,
        "class_code": NOT_RECORDED,
        "driver": map_known(driver, lambda driver: driver and driver.rpartition("/")[2]),
        "numa_node": numa_node(source, address),
        "pcie": pcie_link(source, address),
        "max_payload_bytes": config.max_payload_bytes,
        "max_payload_supported_bytes": config.max_payload_supported_bytes,
        "max_read_request_bytes": config.max_read_request_bytes,
        "acs": config.acs,
        "aer_correctable": _errors(source, f"{folder}/aer_dev_correctable", "TOTAL_ERR_COR"),
        "aer_nonfatal": _errors(source, f"{folder}/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
        "aer_fatal": _errors(source, f"{folder}/aer_dev_fatal", "TOTAL_ERR_FATAL"),
        "iommu_group_type": map_known(group, lambda group: group and read_text(source, f"{group}/type")),
        "is_virtual_function": map_known(physical_function(source, address), lambda owner: owner is not None)
        if kind in ("rdma", "ethernet", "gpu")
        else NOT_RECORDED,
        "evidence": (file_ref(folder),),
    }
    return PciDevice(**{**fields, **given})  # type: ignore[arg-type]


def _config(source: Source, folder: str) -> PciConfig:
    data = source.read(f"{folder}/config")
    if isinstance(data, Unknown):
        return PciConfig(
            max_payload_bytes=data, max_payload_supported_bytes=data, max_read_request_bytes=data, acs=data
        )
    return parse_config(data)


def _errors(source: Source, path: str, total: str) -> int | Unknown:
    """Return the kernel's total in a file of error counters; a device without AER has no such file."""
    text = when_missing(read_text(source, path), _NO_AER)
    if isinstance(text, Unknown):
        return text
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == total and value.strip().isdecimal() and len(value) < 19:
            return int(value)
    return Unknown(Reason.UNPARSABLE, f"{path} has no {total}")


def _by_bus(source: Source) -> tuple[PciDevice, ...]:
    """Return the devices of a copy of /sys that has only the tree of buses; their kinds are unknown."""
    devices: dict[str, PciDevice] = {}
    for bus in items_of(source.names(_BUSES)):
        for name in items_of(source.names(f"{_BUSES}/{bus}/device")):
            address = normal_address(name)
            if not isinstance(address, Unknown):
                folder = f"{_BUSES}/{bus}/device/{name}"
                devices[address] = PciDevice(
                    bus_id=address, kind="other", pcie=_link_in(source, folder), evidence=(file_ref(folder),)
                )
    return tuple(devices[address] for address in sorted(devices))
