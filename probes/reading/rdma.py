"""Which RDMA devices there are and where they sit; the network and the topology collectors both ask."""

from __future__ import annotations

from probes.base.record import Reason, Record, Unknown, items_of
from probes.reading.pci import DEVICES, address_of, device_path
from probes.sources.base import Source

CLASS = "/sys/class/infiniband"


class RdmaDevice(Record, kw_only=True):
    """An RDMA device and its place in sysfs."""

    name: str
    folder: str
    """Where its own files are."""
    path: str | Unknown
    """Canonical path of the hardware below /sys/devices."""
    pci_bus_id: str | Unknown


def rdma_devices(source: Source) -> tuple[RdmaDevice, ...] | Unknown:
    """The devices in the order of their names; none where the kernel has no such class."""
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
    """The devices of a copy of /sys that lacks the class folder, as tools make that copy /sys/bus/pci
    only.
    """
    addresses = source.names(DEVICES)
    found: list[RdmaDevice] = []
    for address in items_of(addresses):
        for name in items_of(source.names(f"{DEVICES}/{address}/infiniband")):
            folder = f"{DEVICES}/{address}/infiniband/{name}"
            found.append(
                RdmaDevice(name=name, folder=folder, path=device_path(source, address), pci_bus_id=address)
            )
    return tuple(sorted(found, key=lambda device: device.name))
