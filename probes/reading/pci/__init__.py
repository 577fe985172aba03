"""Read PCI devices from sysfs, for several collectors."""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.facts import PcieLink
from probes.parsers.topology.pci_addresses import link_generation, link_width, normal_address
from probes.sources.base import Source, read_int, read_text

DEVICES = "/sys/bus/pci/devices"
_NVIDIA = "10de"
_GPU_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers (PCI Code and ID Assignment Specification 1.11, base class 03h)."""


def nvidia_gpu_addresses(source: Source) -> tuple[str, ...] | Unknown:
    """Return the PCI addresses of NVIDIA GPUs, with or without a working driver."""
    # This file lists the vendor of every device. The classes of hundreds of devices are read only if
    # NVIDIA is among the vendors.
    listing = read_text(source, "/proc/bus/pci/devices")
    if not isinstance(listing, Unknown) and not any(
        line.split("\t", 2)[1].startswith(_NVIDIA) for line in listing.splitlines() if "\t" in line
    ):
        return ()
    addresses = source.names(DEVICES)
    if isinstance(addresses, Unknown):
        # A kernel without PCI has no such directory.
        return () if addresses.reason is Reason.TOOL_MISSING else addresses
    gpus: list[str] = []
    for address in addresses:
        is_gpu = _is_nvidia_gpu(source, address)
        if isinstance(is_gpu, Unknown):
            return is_gpu
        if is_gpu:
            gpus.append(address)
    return tuple(gpus)


def _is_nvidia_gpu(source: Source, address: str) -> bool | Unknown:
    vendor = read_text(source, f"{DEVICES}/{address}/vendor")
    if isinstance(vendor, Unknown) or vendor != f"0x{_NVIDIA}":
        return vendor if isinstance(vendor, Unknown) else False
    device_class = read_text(source, f"{DEVICES}/{address}/class")
    return device_class if isinstance(device_class, Unknown) else device_class.startswith(_GPU_CLASSES)


def numa_node(source: Source, address: str | Unknown) -> int | Unknown | None:
    """Return the NUMA node of a device; None if the platform states none (-1)."""
    if isinstance(address, Unknown):
        return address
    node = read_int(source, f"{DEVICES}/{address}/numa_node")
    return None if node == -1 else node


def cpu_affinity(source: Source, address: str | Unknown) -> str | Unknown:
    """Return the CPUs near a device, in the kernel's notation."""
    return (
        address if isinstance(address, Unknown) else read_text(source, f"{DEVICES}/{address}/local_cpulist")
    )


def device_path(source: Source, address: str | Unknown) -> str | Unknown:
    """Return the canonical sysfs path of a device, which contains the bridges above it."""
    return address if isinstance(address, Unknown) else source.link(f"{DEVICES}/{address}")


def address_of(path: str | Unknown) -> str | Unknown:
    """Return the PCI address at the end of a canonical device path."""
    if isinstance(path, Unknown):
        return path
    address = normal_address(path.rpartition("/")[2])
    return (
        Unknown(Reason.NOT_SUPPORTED, f"{path} is not a PCI device")
        if isinstance(address, Unknown)
        else address
    )


def pcie_link(source: Source, address: str | Unknown) -> PcieLink:
    """Return the trained and the possible link of a device."""
    if isinstance(address, Unknown):
        return PcieLink(generation=address, generation_max=address, width=address, width_max=address)
    return link_in(source, f"{DEVICES}/{address}")


def link_in(source: Source, folder: str) -> PcieLink:
    """Return the link of the device whose files are in `folder`."""
    return PcieLink(
        generation=_generation(source, f"{folder}/current_link_speed"),
        generation_max=_generation(source, f"{folder}/max_link_speed"),
        width=_width(source, f"{folder}/current_link_width"),
        width_max=_width(source, f"{folder}/max_link_width"),
    )


def _generation(source: Source, path: str) -> int | Unknown:
    text = read_text(source, path)
    return text if isinstance(text, Unknown) else link_generation(text)


def _width(source: Source, path: str) -> int | Unknown:
    text = read_text(source, path)
    return text if isinstance(text, Unknown) else link_width(text)
