"""PCI tree of the healthy node: each GPU and its NIC share a bridge; the storage port has one of its own."""

from __future__ import annotations

from probes.base.record import EvidenceRef
from probes.facts import PciDevice, PcieLink, PciKind

FULL = PcieLink(generation=5, generation_max=5, width=16, width_max=16)


def bridge_address(index: int) -> str:
    """Return the address of the bridge above GPU and NIC `index`; index 8 is the storage port."""
    return f"0000:{0xE0 + index:02x}:01.0"


def healthy_tree(gpus: tuple[str, ...], nics: tuple[str, ...]) -> tuple[PciDevice, ...]:
    """Return the devices at these addresses and the bridges above them, without faults."""
    devices = [_device(bridge_address(index), "bridge", None) for index in range(len(nics))]
    devices += [_device(address, "gpu", bridge_address(index)) for index, address in enumerate(gpus)]
    devices += [_device(address, "rdma", bridge_address(index)) for index, address in enumerate(nics)]
    return tuple(sorted(devices, key=lambda device: device.bus_id))


def _device(address: str, kind: PciKind, parent: str | None) -> PciDevice:
    return PciDevice(
        bus_id=address,
        kind=kind,
        parent=parent,
        numa_node=0,
        pcie=FULL,
        max_payload_bytes=256,
        max_payload_supported_bytes=256,
        max_read_request_bytes=4096,
        acs=() if kind == "bridge" else None,
        aer_correctable=0,
        aer_nonfatal=0,
        aer_fatal=0,
        iommu_group_type="identity",
        evidence=(EvidenceRef(source="file", key=f"/sys/bus/pci/devices/{address}"),),
    )
