"""Collect PCI devices from sysfs, lspci, hwloc, an NCCL topology and dmidecode."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from probes.base.evidence import file_ref
from probes.base.record import Unknown, items_of, value_or
from probes.catalogue.accelerators import accelerator_nodes, accelerator_title
from probes.catalogue.hardware import Catalogue, load_catalogue
from probes.collect.collecting import CollectOptions
from probes.facts import Accelerator, Contradiction, PciDevice
from probes.reading.merging import merge
from probes.reading.pci.sysfs import pci_devices
from probes.reading.readers.reader_rows import PCI_DEVICES
from probes.reading.readers.text_reader import read_all, records_of, unread_of
from probes.sources.base import Source

_VOLATILE = frozenset({
    "kind", "name", "class_code", "driver", "parent", "downgraded", "slot", "aer_correctable",
    "aer_nonfatal", "aer_fatal", "is_virtual_function", "pcie.generation", "pcie.generation_max",
    "pcie.width_max",
})  # fmt: skip
"""Fields that tools word differently, that change, or that NCCL states for the whole path."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `pci_devices`, `accelerators`, contradictions and unread lines."""
    devices = pci_devices(source)
    texts = () if source.is_live else read_all(source, PCI_DEVICES)
    contradictions: tuple[Contradiction, ...] = ()
    if records_of(texts):
        merged, contradictions = _merged((*items_of(devices), *records_of(texts)))
        devices = _relevant(merged)
    return {
        "pci_devices": devices,
        "accelerators": _accelerators(source, devices),
        "contradictions": contradictions,
        "unread": unread_of(texts),
    }


def _accelerators(
    source: Source, devices: tuple[PciDevice, ...] | Unknown
) -> tuple[Accelerator, ...] | Unknown:
    """Return the accelerators of other makers on the PCI bus, and those that only device files show."""
    on_bus = [
        (family, device)
        for device in items_of(devices)
        if (family := accelerator_title(device.class_code, device.device_id)) is not None
        and device.is_virtual_function is not True
    ]
    names = source.names("/dev")
    if isinstance(devices, Unknown) and isinstance(names, Unknown):
        return devices
    families = {family for family, _ in on_bus}
    by_file = [
        Accelerator(name=family, evidence=(file_ref(f"/dev/{name}"),))
        for family, name in accelerator_nodes(items_of(names))
        if family not in families
    ]
    catalogue = load_catalogue() if on_bus else None
    return (*(_accelerator(family, device, catalogue) for family, device in on_bus), *by_file)


def _accelerator(family: str, device: PciDevice, catalogue: Catalogue | None) -> Accelerator:
    row = catalogue.gpu_on_bus(value_or(device.device_id, ""), "") if catalogue is not None else None
    return Accelerator(
        name=family if row is None else row.driver_name,
        bus_id=device.bus_id,
        driver=device.driver,
        evidence=device.evidence,
    )


def _merged(devices: Iterable[PciDevice]) -> tuple[dict[str, PciDevice], tuple[Contradiction, ...]]:
    """Return one record per address; a link line without an address stays separate."""
    by_address: dict[str, list[PciDevice]] = {}
    for number, device in enumerate(devices):
        by_address.setdefault(device.bus_id or f"line {number}", []).append(device)
    merged: dict[str, PciDevice] = {}
    contradictions: list[Contradiction] = []
    for address, records in by_address.items():
        record, conflicts = merge(address, records, volatile=_VOLATILE)
        kind = next((entry.kind for entry in records if entry.kind != "other"), "other")
        merged[address] = msgspec.structs.replace(record, kind=kind)
        contradictions += conflicts
    return merged, tuple(contradictions)


def _relevant(devices: dict[str, PciDevice]) -> tuple[PciDevice, ...]:
    """Return the devices without bridges above no GPU, NVSwitch or NIC, and without unused devices."""
    above: set[str] = set()
    for device in devices.values():
        parent = device.parent if device.kind in ("gpu", "nvswitch", "rdma") else None
        while isinstance(parent, str) and parent in devices and parent not in above:
            above.add(parent)
            parent = devices[parent].parent
    tree = any(isinstance(device.parent, str) for device in devices.values())
    return tuple(
        device
        for address, device in sorted(devices.items())
        if device.kind not in ("bridge", "other")
        or address in above
        or (device.kind == "bridge" and not tree)
        or (device.kind == "other" and (not device.bus_id or isinstance(device.class_code, Unknown)))
    )
