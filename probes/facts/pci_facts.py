"""Facts of the PCI bus: devices, their place in the tree, and the bridges between two devices."""

from typing import Literal

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.facts.gpu_facts import PcieLink

PciKind = Literal["gpu", "accelerator", "nvswitch", "rdma", "ethernet", "nvme", "bridge", "other"]
"""Role of a device. An accelerator is a device for training that is not a GPU, for example a Gaudi."""


class PciDevice(Record, kw_only=True):
    """A device that is relevant for training, or a bridge above such a device."""

    bus_id: str
    """Address in lower case with a four-digit domain: `0000:1b:00.0`; empty if a pasted part lacks it."""
    kind: PciKind
    device_id: str | Unknown = NOT_RECORDED
    """Vendor and device: `10de:2330`."""
    class_code: str | Unknown = NOT_RECORDED
    """PCI class as four hex digits: `0302`."""
    name: str | Unknown = NOT_RECORDED
    driver: str | Unknown | None = NOT_RECORDED
    """The kernel driver; None if none is bound."""
    parent: str | Unknown | None = NOT_RECORDED
    """Bus id of the bridge above; None for devices directly on the host bridge, such as root ports."""
    numa_node: int | Unknown | None = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    downgraded: tuple[str, ...] | Unknown = NOT_RECORDED
    """Link properties that lspci marks as lower than the device supports: `speed`, `width`."""
    max_payload_bytes: int | Unknown = NOT_RECORDED
    max_payload_supported_bytes: int | Unknown = NOT_RECORDED
    max_read_request_bytes: int | Unknown = NOT_RECORDED
    acs: tuple[str, ...] | Unknown | None = NOT_RECORDED
    """Active controls of Access Control Services; None if the device does not support ACS.

    Controls are `source_validation`, `request_redirect`, `completion_redirect`, `upstream_forwarding` and
    others. Redirects send peer-to-peer traffic through the host.
    """
    aer_correctable: int | Unknown = NOT_RECORDED
    aer_nonfatal: int | Unknown = NOT_RECORDED
    aer_fatal: int | Unknown = NOT_RECORDED
    responds: bool | Unknown = NOT_RECORDED
    """False if the configuration reads as all ones (lspci: `rev ff`): the device no longer answers.
    """
    link_lost: str = ""
    """Words that show a lost link: `Width x0` of a device with lanes, or `SDES+` (surprise down)."""
    iommu_group_type: str | Unknown | None = NOT_RECORDED
    """Type of the IOMMU group: `identity`, `DMA`, `DMA-FQ`; None without an IOMMU."""
    slot: str | Unknown = NOT_RECORDED
    """Name of the slot as the machine's firmware calls it, from dmidecode."""
    is_virtual_function: bool | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Accelerator(Record, kw_only=True):
    """An accelerator of a vendor other than NVIDIA. rigtune recognises it but does not judge it."""

    name: str
    """Model (`AMD Instinct MI300X`), or the family if the model is unknown."""
    bus_id: str = ""
    """Address on the PCI bus; empty if only a device file shows the accelerator."""
    driver: str | Unknown | None = NOT_RECORDED
    """The kernel driver; None if none is bound."""
    evidence: tuple[EvidenceRef, ...] = ()


LinkKind = Literal["NVLINK", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""Kind of a connection: NVLINK, or the PCIe distance.

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
    """Permission of a GPU to access the memory of another GPU, as the driver reports."""

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
