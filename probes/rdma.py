"""Which RDMA devices there are and where they sit; the network and the topology collectors both ask."""

from __future__ import annotations

from probes.pci import address_of
from probes.record import Reason, Record, Unknown
from probes.sources.base import Source

CLASS = "/sys/class/infiniband"


class RdmaDevice(Record, kw_only=True):
    """An RDMA device and its place in sysfs."""

    name: str
    path: str | Unknown
    """Canonical path of the device below /sys/devices."""

    @property
    def pci_bus_id(self) -> str | Unknown:
        return address_of(self.path)


def rdma_devices(source: Source) -> tuple[RdmaDevice, ...] | Unknown:
    """The devices in the kernel's order of names; none where the kernel has no such class."""
    names = source.names(CLASS)
    if isinstance(names, Unknown):
        return () if names.reason is Reason.TOOL_MISSING else names
    return tuple(RdmaDevice(name=name, path=source.link(f"{CLASS}/{name}/device")) for name in names)
