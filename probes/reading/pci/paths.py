"""Build the part of the PCI tree that training uses: devices, the bridges above each, and possible links."""

from collections.abc import Mapping
from typing import NamedTuple

from probes.base.record import NOT_RECORDED, Unknown, known
from probes.facts import Gpu, MachineFacts, Nic, PciDevice

REDIRECTS = frozenset({"request_redirect", "completion_redirect"})
"""Controls of Access Control Services that send peer-to-peer traffic up to the host."""
_DEEPEST = 64


class Tree(NamedTuple):
    """The devices of a machine by address; empty if they could not be read."""

    devices: Mapping[str, PciDevice]

    def above(self, device: PciDevice) -> tuple[PciDevice, ...]:
        """Return the known bridges above `device`, the nearest first."""
        chain: list[PciDevice] = []
        parent = device.parent
        while isinstance(parent, str) and parent in self.devices and len(chain) < _DEEPEST:
            bridge = self.devices[parent]
            if bridge in chain:
                break
            chain.append(bridge)
            parent = bridge.parent
        return tuple(chain)

    def possible_width(self, device: PciDevice) -> int | Unknown:
        """Return the lanes that both ends of the device's link support.

        If the other end is unknown, the device alone decides.
        """
        return _lesser(device.pcie.width_max, [bridge.pcie.width_max for bridge in self.above(device)[:1]])

    def possible_generation(self, device: PciDevice) -> int | Unknown:
        """Return the newest PCIe generation that both ends of the device's link support.

        If the other end is unknown, the device alone decides.
        """
        return _lesser(
            device.pcie.generation_max, [bridge.pcie.generation_max for bridge in self.above(device)[:1]]
        )


def tree_of(facts: MachineFacts) -> Tree:
    devices = facts.pci_devices if known(facts.pci_devices) else ()
    return Tree({device.bus_id: device for device in devices if device.bus_id})


def training_devices(facts: MachineFacts) -> tuple[PciDevice, ...]:
    """Return the GPUs and RDMA devices on the PCI bus."""
    return tuple(device for device in tree_of(facts).devices.values() if device.kind in ("gpu", "rdma"))


def names_of(facts: MachineFacts) -> dict[str, str]:
    """Return the usual name of the device at each address: `GPU3`, `mlx5_0`."""
    owners: tuple[Gpu | Nic, ...] = (
        *(facts.gpus if known(facts.gpus) else ()),
        *(facts.nics if known(facts.nics) else ()),
    )
    names: dict[str, str] = {}
    for owner in owners:
        if known(owner.pci_bus_id):
            names.setdefault(owner.pci_bus_id, f"GPU{owner.index}" if isinstance(owner, Gpu) else owner.name)
    return names


def _lesser(own: int | Unknown, others: list[int | Unknown]) -> int | Unknown:
    if isinstance(own, Unknown):
        return own
    return min([own, *(other for other in others if known(other))])


UNNAMED = "PCI device"
"""Subject of a device whose PCI address is not in the text."""


def subject_of(device: PciDevice, names: Mapping[str, str]) -> str:
    """Return `GPU3`, `mlx5_0`, or else the address."""
    return names.get(device.bus_id, device.bus_id) or UNNAMED


def unread_tree(facts: MachineFacts) -> Unknown:
    """Return the reason why the PCI devices are unknown."""
    return facts.pci_devices if isinstance(facts.pci_devices, Unknown) else NOT_RECORDED


def is_for_training(facts: MachineFacts, address: str | None) -> bool:
    """Return False if the device is known and is not a GPU, NIC or NVSwitch, for example an NVMe drive."""
    kinds = {_slot(device.bus_id): device.kind for device in tree_of(facts).devices.values()}
    return address is None or kinds.get(_slot(address), "rdma") in ("gpu", "rdma", "nvswitch")


def name_at(names: Mapping[str, str], address: str) -> str:
    """Return the usual name of the device in the slot of a logged address; the address if it has no name."""
    return next((name for known_at, name in names.items() if _slot(known_at) == _slot(address)), address)


def _slot(address: str) -> str:
    """Return the address without the function, which logs of the driver leave out."""
    return address.partition(".")[0]
