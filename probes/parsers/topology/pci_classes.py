"""Derive a device's use from its PCI class code, vendor and device, and from the words of lspci for them."""

from probes.base.record import NOT_RECORDED, Unknown, value_or
from probes.catalogue.accelerators import accelerator_title
from probes.catalogue.hardware import load_catalogue
from probes.facts import Gpu, Nic, PciDevice, PciKind
from probes.facts.gpu_facts import UNNUMBERED

CLASS_CODES = {
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Display controller": "0380",
    "Processing accelerators": "1200",
    "Host bridge": "0600",
    "ISA bridge": "0601",
    "PCI bridge": "0604",
    "Bridge": "0680",
    "InfiniBand to PCI host bridge": "060a",
    "Ethernet controller": "0200",
    "Infiniband controller": "0207",
    "InfiniBand controller": "0207",
    "Fabric controller": "0208",
    "Network controller": "0280",
    "Non-Volatile memory controller": "0108",
    "SCSI storage controller": "0100",
    "IDE interface": "0101",
    "RAID bus controller": "0104",
    "SATA controller": "0106",
    "Serial Attached SCSI controller": "0107",
    "Mass storage controller": "0180",
    "InfiniBand": "0c06",
    "USB controller": "0c03",
    "SMBus": "0c05",
    "Signal processing controller": "1180",
    "Performance counters": "1101",
    "Communication controller": "0780",
    "Serial controller": "0700",
    "System peripheral": "0880",
    "PIC": "0800",
    "Generic system peripheral [0807]": "0807",
    "DMA controller": "0801",
    "IOMMU": "0806",
    "Memory controller": "0580",
    "RAM memory": "0500",
    "Audio device": "0403",
    "Multimedia audio controller": "0401",
    "Encryption controller": "1080",
    "Co-processor": "0b40",
    "Non-Essential Instrumentation": "1300",
    "Non-VGA unclassified device": "0000",
    "Unclassified device": "00ff",
    "Unassigned class": "ff00",
    "Memory controller [CXL]": "0502",
    "CXL": "0502",
}
"""Codes of the class names in the PCI ID repository.

Source: pci.ids, section of device classes; version of Debian 12.
"""

VENDORS = {
    "NVIDIA": "10de",
    "Mellanox": "15b3",
    "Advanced Micro Devices, Inc. [AMD/ATI]": "1002",
    "Advanced Micro Devices": "1022",
    "Amazon.com": "1d0f",
    "Intel": "8086",
    "Broadcom / LSI": "1000",
    "Broadcom": "14e4",
    "ASPEED": "1a03",
    "Matrox": "102b",
    "Red Hat": "1af4",
    "Samsung": "144d",
}
"""Vendor ids by the prefix of the vendor's name in pci.ids; longer prefixes come first."""


_NVIDIA, _AMD, _MELLANOX, _AMAZON = "10de", "1002", "15b3", "1d0f"
_DISPLAYS = frozenset({"0300", "0302"})
_AMD_COMPUTE = frozenset({"0300", "0302", "0380", "1200"})
_AMD_FIRST = "6600"
"""First device id of GCN.

Lower ids belong to older chips, such as the display of older management processors (515e).
"""
_BRIDGES = frozenset({"0604", "0609", "060a"})
_RDMA_CLASSES = frozenset({"0207", "0208", "0c06"})
_ETHERNET_CLASSES = frozenset({"0200", "0280"})


def driver_name(device_id: str, words: str = "") -> str | None:
    """Return the driver's name of a GPU by its PCI device (`10de:2330`), or else by lspci's words."""
    row = load_catalogue().gpu_on_bus(device_id, words) if device_id or words else None
    return None if row is None else row.driver_name


def kind_of(class_code: str | Unknown, device_id: str | Unknown) -> PciKind:
    """Return the use of a device; `device_id` is `10de:2330`, or `10de:` if only the vendor is known.

    An NVIDIA device of class 0680 is an NVSwitch; Ethernet of Mellanox and EFA of Amazon support RDMA. A
    display controller of a management processor (ASPEED, Matrox) is no GPU.
    """
    vendor, _, device = ("", "", "") if isinstance(device_id, Unknown) else device_id.partition(":")
    if isinstance(class_code, Unknown):
        return "other"
    if (vendor == _NVIDIA and class_code in _DISPLAYS) or (
        vendor == _AMD and class_code in _AMD_COMPUTE and (device or _AMD_FIRST) >= _AMD_FIRST
    ):
        return "gpu"
    if vendor == _NVIDIA and class_code == "0680":
        return "nvswitch"
    has_rdma = vendor == _MELLANOX or (vendor == _AMAZON and device.startswith("efa"))
    if class_code in _RDMA_CLASSES or (class_code in _ETHERNET_CLASSES and has_rdma):
        return "rdma"
    if class_code in _ETHERNET_CLASSES:
        return "ethernet"
    if class_code == "0108":
        return "nvme"
    if class_code in _BRIDGES:
        return "bridge"
    return "other" if accelerator_title(class_code, device_id) is None else "accelerator"


def vendor_of_words(words: str) -> str | None:
    """Return the vendor id of a device description that begins with the vendor's name."""
    return next((vendor for name, vendor in VENDORS.items() if words.startswith(name)), None)


def gpu_of_device(device: PciDevice) -> Gpu:
    """Return the record of a PCI device that is a GPU, with the values that the PCI device shows."""
    return Gpu(
        index=UNNUMBERED,
        name=driver_name(value_or(device.device_id, ""), value_or(device.name, "")) or NOT_RECORDED,
        pci_bus_id=device.bus_id,
        pci_device_id=device.device_id,
        pcie=device.pcie,
        numa_node=device.numa_node,
        evidence=device.evidence,
    )


def nic_of_device(device: PciDevice, name: str = "") -> Nic:
    """Return the port of a PCI device that supports RDMA.

    Class 0207 is an InfiniBand adapter; a class of Ethernet shows the current setting of the port. NVIDIA's
    part numbers (MT4129) are the device ids in decimal digits.
    """
    return Nic(
        name=name,
        link_layer=_LINK_LAYERS.get(value_or(device.class_code, ""), NOT_RECORDED),
        device_type=_part_number(device.device_id),
        pci_bus_id=device.bus_id,
        numa_node=device.numa_node,
        pcie=device.pcie,
        is_virtual_function=device.is_virtual_function,
        evidence=device.evidence,
    )


_LINK_LAYERS = {"0207": "InfiniBand", "0c06": "InfiniBand", "0200": "Ethernet"}


def _part_number(device_id: str | Unknown) -> str | Unknown:
    if isinstance(device_id, Unknown):
        return device_id
    vendor, _, device = device_id.partition(":")
    return f"MT{int(device, 16)}" if vendor == _MELLANOX and device else NOT_RECORDED
