"""Collect PCI devices, and how GPUs and NICs are connected.

NVML and sysfs are read first; texts add the facts that these do not report.
"""

from collections.abc import Iterable
from itertools import combinations

import msgspec

from probes.base.record import (
    Reason,
    Record,
    Unknown,
    file_ref,
    first_unknown,
    items_of,
    map_known,
    nvml_ref,
    value_or,
)
from probes.catalogue.accelerators import accelerator_nodes, accelerator_title
from probes.catalogue.hardware import Catalogue, load_catalogue
from probes.collect.collecting import CollectOptions
from probes.facts import Accelerator, Contradiction, Link, LinkKind, NvLink, PciDevice, PeerAccess, Unread
from probes.parsers.topology.pci_addresses import pci_distance
from probes.reading.merging import merge_groups, merge_links
from probes.reading.nvidia import bus_id, device_count, driver_silence, nvlinks
from probes.reading.pci import (
    DEVICES,
    device_path,
    numa_node,
    nvidia_gpu_addresses,
    pci_devices,
    rdma_devices,
)
from probes.reading.texts import LINKS, PCI_DEVICES, PEER_ACCESS, read_all, records_of, unread_of
from probes.sources.base import Source

_ANCESTORS: dict[int, LinkKind] = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""Link kind by nvmlGpuTopologyLevel_t.

Level 0 (two GPUs of one board) is a single bridge, which nvidia-smi prints as PIX.
"""
_CAPABILITIES = {0: "read"}
"""Capability by nvmlGpuP2PCapsIndex_t.

NCCL requires read access; with it, the driver also grants write access.
"""
_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
"""Status by nvmlGpuP2PStatus_t, with the abbreviations of `nvidia-smi topo -p2p`."""
_VOLATILE = frozenset({
    "kind", "name", "class_code", "driver", "parent", "downgraded", "slot", "aer_correctable",
    "aer_nonfatal", "aer_fatal", "is_virtual_function", "link_lost", "pcie.generation", "pcie.generation_max",
    "pcie.width_max",
})  # fmt: skip
"""Fields whose values change, that tools word differently, or that NCCL reports for the whole path."""


def collect_pci(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `pci_devices`, `accelerators`, contradictions and unread lines."""
    devices = pci_devices(source)
    texts = () if source.is_live else read_all(source, PCI_DEVICES)
    contradictions: tuple[Contradiction, ...] = ()
    if records_of(texts):
        devices, contradictions = _merged((*items_of(devices), *records_of(texts)))
    return {
        "pci_devices": devices,
        "accelerators": _accelerators(source, devices),
        "contradictions": contradictions,
        "unread": unread_of(texts),
    }


def _merged(records: Iterable[PciDevice]) -> tuple[tuple[PciDevice, ...], tuple[Contradiction, ...]]:
    """Return one relevant device for each address, and the contradictions between its records."""
    by_address: dict[str, list[PciDevice]] = {}
    for number, device in enumerate(records):
        # A link line without an address is kept as a separate device.
        by_address.setdefault(device.bus_id or f"line {number}", []).append(device)
    merged, contradictions = merge_groups(by_address.items(), volatile=_VOLATILE)
    devices = {
        address: msgspec.structs.replace(
            device, kind=next((record.kind for record in records if record.kind != "other"), "other")
        )
        for device, (address, records) in zip(merged, by_address.items(), strict=True)
    }
    return _relevant(devices), contradictions


def _accelerators(
    source: Source, devices: tuple[PciDevice, ...] | Unknown
) -> tuple[Accelerator, ...] | Unknown:
    """Return the accelerators of other vendors on the PCI bus, and other accelerators with device files."""
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


def _relevant(devices: dict[str, PciDevice]) -> tuple[PciDevice, ...]:
    """Return the devices; bridges and others only if they are on the path of a GPU, NVSwitch or NIC.

    A device with a fault is always kept, and so is a bridge or device whose place or class is unknown.
    """
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
        or device.responds is False
        or device.link_lost
        or (device.kind == "other" and (not device.bus_id or isinstance(device.class_code, Unknown)))
    )


class _Place(Record, kw_only=True):
    """A GPU or NIC and its place on the bus."""

    name: str
    origin: str
    """File that contains the place."""
    address: str | Unknown
    path: str | Unknown
    numa_node: int | Unknown | None
    nvlinks: tuple[NvLink, ...] | Unknown = ()
    gpu_index: int | None = None


def collect_topology(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `links` of every pair of GPUs and NICs, and `peer_access` between GPUs."""
    links, contradictions, unread = _links(source)
    tables = () if source.is_live else read_all(source, PEER_ACCESS)
    access = _nvml_peer_access(source)
    return {
        "links": links,
        "peer_access": access
        if isinstance(access, Unknown) and not tables
        else (*items_of(access), *records_of(tables)),
        "contradictions": contradictions,
        "unread": (*unread, *unread_of(tables)),
    }


_Answer = tuple[tuple[Link, ...] | Unknown, tuple[Contradiction, ...], tuple[Unread, ...]]


def _links(source: Source) -> _Answer:
    gpus, nics = _gpus(source), _nics(source)
    places = (*items_of(gpus), *items_of(nics))
    links = tuple(_link(source, a, b) for a, b in combinations(places, 2))
    is_complete = not isinstance(gpus, Unknown) and not first_unknown(*(link.kind for link in links))
    if source.is_live and is_complete:
        return links, (), ()
    # On a live machine the matrix of nvidia-smi is the only text.
    texts = read_all(source, (reader for reader in LINKS if reader.is_live or not source.is_live))
    unread = unread_of(texts)
    if not isinstance(gpus, Unknown):
        merged, contradictions = merge_links((links, *(text.records for text in texts)))
        return merged, contradictions, unread
    if records_of(texts) or (texts and not unread):
        merged, contradictions = merge_links((*(text.records for text in texts), links))
        return merged, contradictions, unread
    between_nics = map_known(nics, lambda _: links)
    return driver_silence(nvidia_gpu_addresses(source), gpus) or between_nics, (), unread


def _gpus(source: Source) -> tuple[_Place, ...] | Unknown:
    count = device_count(source)
    if isinstance(count, Unknown):
        return count
    addresses = [bus_id(source, index) for index in range(count)]
    return tuple(
        _Place(
            name=f"GPU{index}",
            origin=f"{DEVICES}/{address}",
            address=address,
            path=device_path(source, address),
            numa_node=numa_node(source, address),
            nvlinks=nvlinks(source, index, addresses),
            gpu_index=index,
        )
        for index, address in enumerate(addresses)
    )


def _nics(source: Source) -> tuple[_Place, ...] | Unknown:
    return map_known(
        rdma_devices(source),
        lambda devices: tuple(
            _Place(
                name=device.name,
                origin=device.folder,
                address=device.pci_bus_id,
                path=device.path,
                numa_node=numa_node(source, device.pci_bus_id),
            )
            for device in devices
        ),
    )


def _link(source: Source, a: _Place, b: _Place) -> Link:
    count = _nvlink_count(a, b)
    if count:
        evidence = tuple(nvml_ref(f"nvmlDeviceGetNvLink*({place.gpu_index})") for place in (a, b))
        return Link(
            a=a.name, b=b.name, kind="NVLINK", nvlink_count=count, sees_nvlink=True, evidence=evidence
        )
    if a.gpu_index is not None and b.gpu_index is not None:
        level = source.nvml("nvmlDeviceGetTopologyCommonAncestor", a.gpu_index, b.gpu_index)
        if isinstance(level, int) and level in _ANCESTORS:
            evidence = (nvml_ref(f"nvmlDeviceGetTopologyCommonAncestor({a.gpu_index}, {b.gpu_index})"),)
            sees = not first_unknown(a.nvlinks, b.nvlinks)
            return Link(a=a.name, b=b.name, kind=_ANCESTORS[level], sees_nvlink=sees, evidence=evidence)
    distance = first_unknown(a.path, b.path) or pci_distance(
        str(a.path), str(b.path), a.numa_node, b.numa_node
    )
    return Link(a=a.name, b=b.name, kind=distance, evidence=(file_ref(a.origin), file_ref(b.origin)))


def _nvlink_count(a: _Place, b: _Place) -> int:
    """Return the number of NVLinks between two GPUs.

    Without direct links, this is the number of the GPU with fewer links to switches.
    """
    if isinstance(a.nvlinks, Unknown) or isinstance(b.nvlinks, Unknown):
        return 0
    direct = 0
    if not first_unknown(a.address, b.address):
        direct = sum(link.active is True and link.remote == b.address for link in a.nvlinks)
    to_switch = (
        sum(link.active is True and link.remote == "switch" for link in links)
        for links in (a.nvlinks, b.nvlinks)
    )
    return direct or min(to_switch)


def _nvml_peer_access(source: Source) -> tuple[PeerAccess, ...] | Unknown:
    """Return each pair once: the driver answers the same for both directions."""
    count = device_count(source)
    if isinstance(count, Unknown):
        return count
    access: list[PeerAccess] = []
    silence: Unknown | None = None
    for a, b in combinations(range(count), 2):
        for number, capability in _CAPABILITIES.items():
            status = source.nvml("nvmlDeviceGetP2PStatus", a, b, number)
            if isinstance(status, Unknown):
                if status.reason is not Reason.TIMEOUT:
                    return status
                silence = status
                break  # if a GPU hangs, only its own pairs are unknown
            word = _STATUS.get(status, "U") if isinstance(status, int) else "U"
            evidence = (nvml_ref(f"nvmlDeviceGetP2PStatus({a}, {b}, {number})"),)
            access.append(
                PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability=capability, status=word, evidence=evidence)
            )
    return (silence if not access else None) or tuple(access)
