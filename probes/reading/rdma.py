"""Read the RDMA devices and their places, for the network and the topology collectors."""

from __future__ import annotations

from probes.base.record import Reason, Record, Unknown, items_of
from probes.reading.pci import DEVICES, address_of, device_path
from probes.sources.base import Source

CLASS = "/sys/class/infiniband"


class RdmaDevice(Record, kw_only=True):
    """An RDMA device and its place in sysfs."""

    name: str
    folder: str
    """Folder of the device's own files."""
    path: str | Unknown
    """Canonical path of the hardware below /sys/devices."""
    pci_bus_id: str | Unknown


def rdma_devices(source: Source) -> tuple[RdmaDevice, ...] | Unknown:
    """Return the devices in the order of their names; none if the kernel has no such class."""
    names = source.names(CLASS)
    if isinstance(names, Unknown):
        if names.reason is Reason.TOOL_MISSING:
            return ()
        return _below_pci(source) or names
    paths = {name: source.link(f"{CLASS}/{name}/device") for name in names}
    return tuple(
        RdmaDevice(name=name, folder=f"{CLASS}/{name}", path=path, pci_bus_id=address_of(path))
        for name, path in paths.items()
    )


def _below_pci(source: Source) -> tuple[RdmaDevice, ...]:
    """Return the devices of a copy of /sys without the class folder; some tools copy only /sys/bus/pci."""
    addresses = source.names(DEVICES)
    devices: list[RdmaDevice] = []
    for address in items_of(addresses):
        for name in items_of(source.names(f"{DEVICES}/{address}/infiniband")):
            folder = f"{DEVICES}/{address}/infiniband/{name}"
            devices.append(
                RdmaDevice(name=name, folder=folder, path=device_path(source, address), pci_bus_id=address)
            )
    return tuple(sorted(devices, key=lambda device: device.name))
