"""Facts of the PCI bus: devices, their place in the tree, and what stands between two of them."""

from __future__ import annotations

from typing import Literal

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.facts.gpu_facts import PcieLink

PciKind = Literal["gpu", "nvswitch", "rdma", "ethernet", "nvme", "bridge", "other"]


class PciDevice(Record, kw_only=True):
    """One device of interest for training, or a bridge above one."""

    bus_id: str
    """Lower case with a four-digit domain: `0000:1b:00.0`; empty where a pasted part does not name its
    device.
    """
    kind: PciKind
    device_id: str | Unknown = NOT_RECORDED
    """Vendor and device: `10de:2330`."""
    class_code: str | Unknown = NOT_RECORDED
    """Four hex digits: `0302`."""
    name: str | Unknown = NOT_RECORDED
    driver: str | Unknown | None = NOT_RECORDED
    """The kernel driver; None where none is bound."""
    parent: str | Unknown | None = NOT_RECORDED
    """Bus id of the bridge above; None for a root port and all else that hangs on the host bridge itself."""
    numa_node: int | Unknown | None = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    downgraded: tuple[str, ...] | Unknown = NOT_RECORDED
    """What lspci marks as below the device's capability: `speed`, `width`."""
    max_payload_bytes: int | Unknown = NOT_RECORDED
    max_payload_supported_bytes: int | Unknown = NOT_RECORDED
    max_read_request_bytes: int | Unknown = NOT_RECORDED
    acs: tuple[str, ...] | Unknown | None = NOT_RECORDED
    """The controls of Access Control Services that are on: `source_validation`, `request_redirect`,
    `completion_redirect`, `upstream_forwarding` ...; None where the device has no such capability. Redirects
    send peer-to-peer through the host.
    """
    aer_correctable: int | Unknown = NOT_RECORDED
    aer_nonfatal: int | Unknown = NOT_RECORDED
    aer_fatal: int | Unknown = NOT_RECORDED
    responds: bool | Unknown = NOT_RECORDED
    """False where its configuration reads as all ones (lspci: `rev ff`): it has fallen off the bus."""
    iommu_group_type: str | Unknown | None = NOT_RECORDED
    """`identity`, `DMA`, `DMA-FQ`; None without an IOMMU."""
    slot: str | Unknown = NOT_RECORDED
    """The slot's name in the machine's own words, of dmidecode."""
    is_virtual_function: bool | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


LinkKind = Literal["NVLINK", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""NVLINK, or the PCIe distance: one switch, several switches, host bridge, one NUMA node, across NUMA
nodes.
"""


class Link(Record, kw_only=True):
    """How two devices (GPU0, mlx5_0) reach each other."""

    a: str
    b: str
    kind: LinkKind | Unknown
    nvlink_count: int | None = None
    sees_nvlink: bool = False
    """True where the source would have told of an NVLink between the two, as a listing of the PCI bus would
    not.
    """
    evidence: tuple[EvidenceRef, ...] = ()


class PeerAccess(Record, kw_only=True):
    """Whether one GPU may read or write another's memory, as the driver says."""

    a: str
    b: str
    capability: str
    """`read`, `write`, `nvlink`, `atomics` or `pcie`."""
    status: str
    """`OK`, or the driver's code: `CNS` chipset not supported, `GNS` GPU not supported, `TNS` topology, `DR`
    disabled ...
    """
    evidence: tuple[EvidenceRef, ...] = ()
