"""Place the devices of a catalogue machine on the PCI bus, so that sysfs paths show the row's distances."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec

from probes.catalogue.hardware import MachineModel


class Place(msgspec.Struct, frozen=True):
    """A device on the bus."""

    path: str
    """Canonical path in sysfs."""
    numa_node: int

    @property
    def address(self) -> str:
        return self.path.rpartition("/")[2]


class Layout(msgspec.Struct, frozen=True):
    """The devices of a machine, each kind in the order of its index."""

    gpus: tuple[Place, ...]
    nics: tuple[Place, ...]
    ethernet: Place


class _Bus:
    """Assigns bus numbers, which rise from 1 like those of firmware, and host bridges."""

    def __init__(self, machine: MachineModel) -> None:
        self._numbers = count(1)
        self._bridge_per_node = machine.gpu_link == "PHB"
        self._bridges: dict[int, str] = {}
        self._ports: dict[str, Iterator[int]] = {}

    def root_port(self, numa_node: int) -> str:
        """Return a new root port, on the node's only host bridge or on a new host bridge."""
        bridge = self._bridges.get(numa_node) if self._bridge_per_node else None
        if bridge is None:
            bridge = f"{next(self._numbers):02x}"
            self._bridges[numa_node] = bridge
            self._ports[bridge] = count(1)
        return f"/sys/devices/pci0000:{bridge}/0000:{bridge}:{next(self._ports[bridge]):02x}.0"

    def device(self, above: str) -> str:
        """Return the path of the only device on a new bus below a port."""
        return f"{above}/0000:{next(self._numbers):02x}:00.0"

    def switch(self, above: str, ports: int) -> list[str]:
        """Return the downstream ports of a new switch: an upstream port on one bus, its ports on the next."""
        upstream, inner = self.device(above), next(self._numbers)
        return [f"{upstream}/0000:{inner:02x}:{port:02x}.0" for port in range(ports)]


def gpu_of_nic(machine: MachineModel, nic: int) -> int:
    """Return the GPU that a NIC serves: NICs are spread evenly over the GPUs, in their order."""
    return nic * machine.gpu_count // machine.nic_count


def lay_out(machine: MachineModel) -> Layout:
    """Return the places of all devices of `machine`."""
    bus = _Bus(machine)
    places: dict[tuple[str, int], Place] = {}
    for group in _groups(machine):
        numa_node = gpu_numa_node(machine, group[0][1])
        if machine.gpus_per_switch == 0:
            ports = [bus.root_port(numa_node) for _ in group]
        else:
            ports = bus.switch(bus.root_port(numa_node), len(group))
            if machine.switch_link == "PXB":
                ports = [bus.switch(port, 1)[0] for port in ports]
        places.update(
            (member, Place(bus.device(port), numa_node)) for member, port in zip(group, ports, strict=True)
        )
    return Layout(
        gpus=tuple(places["gpu", index] for index in range(machine.gpu_count)),
        nics=tuple(places["nic", index] for index in range(machine.nic_count)),
        ethernet=Place(bus.device(bus.root_port(0)), 0),
    )


def gpu_numa_node(machine: MachineModel, gpu: int) -> int:
    """Return the NUMA node of a GPU."""
    if machine.gpu_numa_nodes:
        return machine.gpu_numa_nodes[gpu]
    return gpu * machine.numa_nodes // machine.gpu_count


def _groups(machine: MachineModel) -> Iterator[list[tuple[str, int]]]:
    """Yield the devices that share a switch, or a GPU and its NICs without a switch; GPUs come first."""
    size = max(machine.gpus_per_switch, 1)
    for first in range(0, machine.gpu_count, size):
        gpus = range(first, min(first + size, machine.gpu_count))
        nics = (nic for nic in range(machine.nic_count) if gpu_of_nic(machine, nic) in gpus)
        yield [*(("gpu", gpu) for gpu in gpus), *(("nic", nic) for nic in nics)]
