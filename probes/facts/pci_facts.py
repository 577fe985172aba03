"""Facts of the PCI bus: devices, their place in the tree, and the bridges between two devices."""

from __future__ import annotations

from typing import Literal

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.facts.gpu_facts import PcieLink

PciKind = Literal["gpu", "accelerator", "nvswitch", "rdma", "ethernet", "nvme", "bridge", "other"]
"""Use of a device; an accelerator is no GPU, for example a Gaudi."""


class PciDevice(Record, kw_only=True):
    """A device that matters for training, or a bridge above such a device."""

    bus_id: str
    """Address in lower case with a four-digit domain: `0000:1b:00.0`; empty if a pasted part lacks it."""
    kind: PciKind
    device_id: str | Unknown = NOT_RECORDED
    """Vendor and device: `10de:2330`."""
    class_code: str | Unknown = NOT_RECORDED
    """Four hex digits: `0302`."""
    name: str | Unknown = NOT_RECORDED
    driver: str | Unknown | None = NOT_RECORDED
    """The kernel driver; None if none is bound."""
    parent: str | Unknown | None = NOT_RECORDED
    """Bus id of the bridge above; None for devices directly on the host bridge, such as root ports."""
    numa_node: int | Unknown | None = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    downgraded: tuple[str, ...] | Unknown = NOT_RECORDED
    """Properties that lspci marks as below the device's capability: `speed`, `width`."""
    max_payload_bytes: int | Unknown = NOT_RECORDED
    max_payload_supported_bytes: int | Unknown = NOT_RECORDED
    max_read_request_bytes: int | Unknown = NOT_RECORDED
    acs: tuple[str, ...] | Unknown | None = NOT_RECORDED
    """Active controls of Access Control Services; None if the device has no such capability.

    Controls are `source_validation`, `request_redirect`, `completion_redirect`, `upstream_forwarding` and
    others. Redirects send peer-to-peer traffic through the host.
    """
    aer_correctable: int | Unknown = NOT_RECORDED
    aer_nonfatal: int | Unknown = NOT_RECORDED
    aer_fatal: int | Unknown = NOT_RECORDED
    responds: bool | Unknown = NOT_RECORDED
    """False if the configuration reads as all ones (`rev ff`, vendor ffff): the device fell off the bus."""
    link_lost: str = ""
    """Words that show a lost link: `Width x0` of a device with lanes, or `SDES+` (surprise down)."""
    iommu_group_type: str | Unknown | None = NOT_RECORDED
    """Type of the group: `identity`, `DMA`, `DMA-FQ`; None without an IOMMU."""
    slot: str | Unknown = NOT_RECORDED
    """Name of the slot in the machine's own words, from dmidecode."""
    is_virtual_function: bool | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Accelerator(Record, kw_only=True):
    """An accelerator of another maker than NVIDIA, which rigtune recognises and does not judge."""

    name: str
    """Model (`AMD Instinct MI300X`), or the family if the model is unknown."""
    bus_id: str = ""
    """Address on the PCI bus; empty if only a device file shows the accelerator."""
    driver: str | Unknown | None = NOT_RECORDED
    """The kernel driver; None if none is bound."""
    evidence: tuple[EvidenceRef, ...] = ()


LinkKind = Literal["NVLINK", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""NVLINK, or the PCIe distance.

Distances are one switch (PIX), several switches (PXB), host bridge (PHB), one NUMA node (NODE) and across
NUMA nodes (SYS).
"""


class Link(Record, kw_only=True):
    """The connection of two devices (GPU0, mlx5_0)."""

    a: str
    b: str
    kind: LinkKind | Unknown
    nvlink_count: int | None = None
    sees_nvlink: bool = False
    """True if the source reports NVLinks at all; a listing of the PCI bus does not."""
    evidence: tuple[EvidenceRef, ...] = ()


class PeerAccess(Record, kw_only=True):
    """The driver's answer whether a GPU may access the memory of another GPU."""

    a: str
    b: str
    capability: str
    """Capability: `read`, `write`, `nvlink`, `atomics` or `pcie`."""
    status: str
    """`OK`, or the driver's code.

    Codes are `CNS` (chipset not supported), `GNS` (GPU not supported), `TNS` (topology), `DR` (disabled) and
    others.
    """
    evidence: tuple[EvidenceRef, ...] = ()
