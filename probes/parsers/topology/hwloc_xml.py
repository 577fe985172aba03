"""hwloc's XML (`lstopo --of xml`), formats 1.x to 3.0.

Memory of a GPU that the kernel shows as a NUMA node has the subtype GPUMemory. `pci_link_speed` is bandwidth,
from which generation and width cannot be told apart. Source: hwloc, hwloc/topology-xml.c and hwloc2.dtd (read
2026-11).
"""

from __future__ import annotations

import re

import msgspec

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Record, Unknown, value_or
from probes.facts import Cpu, Dmi, Gpu, Link, Nic, NumaNode, PciDevice, Unread
from probes.parsers.host.cpumask import mask_cpus, mask_list
from probes.parsers.nvidia_smi.pci_gpu_names import driver_name
from probes.parsers.topology.hwloc_distances import Matrix, latency_rows, nvlink_counts
from probes.parsers.topology.pci_addresses import normal_address
from probes.parsers.topology.pci_classes import UNNUMBERED, kind_of, nic_of_device
from probes.parsers.topology.pci_tree import End, tree_links
from probes.parsers.topology.xml_events import Element, walk

_MARK = re.compile(
    r"<topology(?: version=\"[\d.]{1,8}\")?>|<object type=\"(?:Machine|Package|Socket|NUMANode|PU)\""
)
_TAGS = ("topology", "object ")
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}:[0-9a-f]{4})\].{0,60}")
_OPENFABRICS = {"3", "32", "48"}
"""OS device types with RDMA: a number until format 2.x, a set of bits since 3.0 (network 16, OpenFabrics
32).
"""
_PORT_STATES = {"1": "DOWN", "2": "INIT", "3": "ARMED", "4": "ACTIVE"}
"""Of the InfiniBand Architecture Specification, vol. 1, PortState."""
_KINDS = {"Socket": "Package", "Node": "NUMANode"}
"""Names of format 1.x."""


class Thing(Record, kw_only=True):
    """An object that is no cache and no group."""

    kind: str
    line: int
    number: int | None
    attributes: dict[str, str]
    infos: dict[str, str]
    nodes: tuple[int, ...] = ()
    """NUMA nodes near it."""
    device: str = ""
    """PCI address of the device that it belongs to."""
    parent: str | None = None
    """PCI address of the bridge above."""


class Hwloc(Record, kw_only=True):
    """One file, as far as it could be read."""

    things: tuple[Thing, ...]
    matrices: tuple[Matrix, ...]
    infos: dict[str, str]
    unread: tuple[Unread, ...] = ()

    def of(self, *kinds: str) -> tuple[Thing, ...]:
        return tuple(thing for thing in self.things if thing.kind in kinds)


def recognise(text: str) -> bool:
    return _MARK.search(text) is not None


def parse_hwloc(text: str) -> Hwloc:
    reader = _Reader()
    end = walk(text, _TAGS, reader.take)
    unread = () if end is None else (Unread(source="", line=end[0], why=end[1]),)
    return Hwloc(
        things=tuple(reader.things()), matrices=tuple(reader.matrices), infos=reader.infos, unread=unread
    )


def parse_unread(text: str) -> tuple[Unread, ...]:
    return parse_hwloc(text).unread


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    return tuple(_device(thing) for thing in parse_hwloc(text).of("PCIDev", "Bridge") if thing.device)


def _device(thing: Thing) -> PciDevice:
    match = _PCI_TYPE.fullmatch(thing.attributes.get("pci_type", ""))
    class_code: str | Unknown = match[1] if match else NOT_RECORDED
    device_id: str | Unknown = match[2] if match and match[2] != "0000:0000" else NOT_RECORDED
    kind = "nvswitch" if thing.attributes.get("subtype") == "NVSwitch" else kind_of(class_code, device_id)
    return PciDevice(
        bus_id=thing.device,
        kind=kind,
        device_id=device_id,
        class_code=class_code,
        name=thing.infos.get("PCIDevice", NOT_RECORDED),
        slot=thing.infos.get("PCISlot", NOT_RECORDED),
        parent=thing.parent,
        numa_node=thing.nodes[0] if len(thing.nodes) == 1 else None,
        evidence=(line_ref(thing.line),),
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs, by NVML's numbers where the file has NVML devices for all of them."""
    hwloc = parse_hwloc(text)
    units = _units(hwloc)
    gpus = _gpu_devices(hwloc, units)
    numbers = _numbers([device for _, device in gpus], units)
    return tuple(
        _gpu(index if numbers else UNNUMBERED, device, units.get(device.bus_id, [])) for index, device in gpus
    )


def _units(hwloc: Hwloc) -> dict[str, list[Thing]]:
    """The OS devices (nvml0, cuda0, mlx5_0) of each PCI device."""
    units: dict[str, list[Thing]] = {}
    for thing in hwloc.of("OSDev"):
        if thing.device:
            units.setdefault(thing.device, []).append(thing)
    return units


def _gpu_devices(hwloc: Hwloc, units: dict[str, list[Thing]]) -> list[tuple[int, PciDevice]]:
    """With NVML's numbers, else numbered by their addresses as NVML does."""
    devices = [
        device
        for device in map(_device, (t for t in hwloc.of("PCIDev") if t.device))
        if _is_gpu(device, units)
    ]
    devices.sort(key=lambda device: device.bus_id)
    numbers = _numbers(devices, units) or range(len(devices))
    return sorted(zip(numbers, devices, strict=True), key=lambda pair: pair[0])


def _is_gpu(device: PciDevice, units: dict[str, list[Thing]]) -> bool:
    return device.kind == "gpu" or any(
        unit.attributes.get("name", "").startswith("nvml") for unit in units.get(device.bus_id, ())
    )


def _numbers(devices: list[PciDevice], units: dict[str, list[Thing]]) -> tuple[int, ...]:
    """The N of each device's nvmlN; none where one has no such unit."""
    numbers: list[int] = []
    for device in devices:
        names = [unit.attributes.get("name", "") for unit in units.get(device.bus_id, ())]
        digits = next((name.removeprefix("nvml") for name in names if name.startswith("nvml")), "")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 4:
            return ()
        numbers.append(int(digits))
    return tuple(numbers) if len(set(numbers)) == len(numbers) else ()


def _model(units: list[Thing]) -> str:
    return next((unit.infos["GPUModel"] for unit in units if "GPUModel" in unit.infos), "")


def _gpu(index: int, device: PciDevice, units: list[Thing]) -> Gpu:
    infos = {name: value for unit in reversed(units) for name, value in unit.infos.items()}
    kib = infos.get("CUDAGlobalMemorySize", "")
    return Gpu(
        index=index,
        name=infos.get("GPUModel") or driver_name(value_or(device.device_id, "")) or NOT_RECORDED,
        uuid=infos.get("NVIDIAUUID", NOT_RECORDED),
        serial=infos.get("NVIDIASerial", NOT_RECORDED),
        memory_bytes=int(kib) * 1024 if kib.isascii() and kib.isdigit() and len(kib) < 14 else NOT_RECORDED,
        pci_bus_id=device.bus_id,
        pci_device_id=device.device_id,
        numa_node=device.numa_node,
        evidence=device.evidence,
    )


def parse_nics(text: str) -> tuple[Nic, ...]:
    """One record per port that a file with port states names; one per RDMA device otherwise."""
    hwloc = parse_hwloc(text)
    devices = {device.bus_id: device for device in map(_device, (t for t in hwloc.of("PCIDev") if t.device))}
    nics: list[Nic] = []
    for thing in hwloc.of("OSDev"):
        name = thing.attributes.get("name", "")
        is_rdma = "NodeGUID" in thing.infos or thing.attributes.get("osdev_type") in _OPENFABRICS
        if name and is_rdma and thing.attributes.get("subtype") not in _STORAGE:
            nics += _ports(name, thing, devices.get(thing.device))
    named = {nic.pci_bus_id for nic in nics}
    return (
        *nics,
        *(
            nic_of_device(device)
            for device in devices.values()
            if device.kind == "rdma" and device.bus_id not in named
        ),
    )


_STORAGE = frozenset({"Disk", "NVM", "MemoryModule", "Tape"})


def _ports(name: str, thing: Thing, device: PciDevice | None) -> list[Nic]:
    base = nic_of_device(device, name) if device is not None else Nic(name=name)
    base = msgspec.structs.replace(
        base, node_guid=thing.infos.get("NodeGUID", NOT_RECORDED), evidence=(line_ref(thing.line),)
    )
    states = {
        int(key[4:-5]): _PORT_STATES.get(value, NOT_RECORDED)
        for key, value in thing.infos.items()
        if key.startswith("Port") and key.endswith("State") and key[4:-5].isdecimal() and len(key) < 13
    }
    return [
        msgspec.structs.replace(base, port=port, state=state) for port, state in sorted(states.items())
    ] or [base]


def parse_links(text: str) -> tuple[Link, ...]:
    """Every pair of GPUs and RDMA devices: by NVLink where the file has its bandwidths, else by the PCI
    tree.
    """
    hwloc = parse_hwloc(text)
    things = hwloc.of("PCIDev", "Bridge")
    devices = {device.bus_id: device for device in map(_device, (thing for thing in things if thing.device))}
    units = _units(hwloc)
    gpus = _gpu_devices(hwloc, units)
    ends = [End(f"GPU{index}", device) for index, device in gpus]
    for nic in parse_nics(text):
        device = devices.get(str(nic.pci_bus_id))
        if device is not None and nic.port == 1:
            ends.append(End(nic.name or device.bus_id, device))
    by_number = {
        (thing.kind, thing.number): thing.device for thing in hwloc.things if thing.number is not None
    }
    names = {device.bus_id: _model(units.get(device.bus_id, [])) for _, device in gpus}
    return tree_links(ends, devices, nvlink_counts(hwloc.matrices, by_number, names))


def parse_cpu(text: str) -> Cpu:
    hwloc = parse_hwloc(text)
    machine, packages = hwloc.of("Machine"), hwloc.of("Package")
    cores, units = hwloc.of("Core"), hwloc.of("PU")
    models = [package.infos["CPUModel"] for package in packages if "CPUModel" in package.infos]
    allowed = mask_cpus(machine[0].attributes.get("allowed_cpuset", "")) if machine else NOT_RECORDED
    whole = not hwloc.unread
    return Cpu(
        model=models[0].strip() if models else hwloc.infos.get("CPUModel", NOT_RECORDED),
        architecture=hwloc.infos.get("Architecture", NOT_RECORDED),
        sockets=len(packages) if packages and whole else NOT_RECORDED,
        physical_cores=len(cores) if cores and whole else NOT_RECORDED,
        logical_cpus=len(units) if units and whole else NOT_RECORDED,
        allowed_cpus=NOT_RECORDED if isinstance(allowed, Unknown) or not allowed else len(allowed),
        evidence=(line_ref(machine[0].line),) if machine else (),
    )


def parse_dmi(text: str) -> Dmi:
    infos = parse_hwloc(text).infos
    return Dmi(
        system_vendor=infos.get("DMISysVendor") or NOT_RECORDED,
        product_name=infos.get("DMIProductName") or infos.get("PlatformModel") or NOT_RECORDED,
        board_name=infos.get("DMIBoardName") or NOT_RECORDED,
        bios_version=infos.get("DMIBIOSVersion") or NOT_RECORDED,
    )


def parse_numa_nodes(text: str) -> tuple[NumaNode, ...]:
    hwloc = parse_hwloc(text)
    distances = latency_rows(hwloc.matrices)
    nodes: dict[int, NumaNode] = {}
    for thing in hwloc.of("NUMANode"):
        index = _digits(thing.attributes.get("os_index", ""))
        if index is None:
            continue
        is_gpu = thing.attributes.get("subtype") == "GPUMemory"
        mask = thing.attributes.get("cpuset")
        memory = _digits(thing.attributes.get("local_memory", ""))
        nodes[index] = NumaNode(
            index=index,
            cpus="" if is_gpu else NOT_RECORDED if mask is None else mask_list(mask),
            memory_bytes=NOT_RECORDED if memory is None else memory,
            distances=distances.get(index, NOT_RECORDED),
            is_gpu_memory=is_gpu,
        )
    return tuple(nodes[index] for index in sorted(nodes))


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class _Reader:
    """Puts the objects together as they come."""

    def __init__(self) -> None:
        self.infos: dict[str, str] = {}
        self.matrices: list[Matrix] = []
        self._kept: list[Thing] = []
        self._open: list[Thing | None] = []
        self._nodes: list[tuple[int, ...]] = [()]
        self._matrix: dict[str, str] | None = None
        self._indexes: list[str] = []
        self._values: list[str] = []

    def things(self) -> list[Thing]:
        return self._kept

    def take(self, element: Element) -> None:
        given = element.attributes
        match element.tag:
            case "object":
                self._close() if given is None else self._begin(element.line, given)
            case "info" if given is not None:
                self._take_info(given)
            case "distances2" | "distances2hetero":
                self._take_matrix(given)
            case "indexes" if given is None:
                self._indexes += element.text.split()
            case "u64values" if given is None:
                self._values += element.text.split()

    def _begin(self, line: int, given: dict[str, str]) -> None:
        kind = _KINDS.get(given.get("type", ""), given.get("type", ""))
        above = next((thing for thing in reversed(self._open) if thing is not None and thing.device), None)
        is_io = kind in ("PCIDev", "Bridge", "OSDev", "Misc")
        nodes = self._nodes[-1]
        if not is_io and (mask := given.get("nodeset")):
            bits = mask_cpus(mask)
            nodes = nodes if isinstance(bits, Unknown) else bits
        self._nodes.append(nodes)
        address = normal_address(given["pci_busid"]) if "pci_busid" in given else ""
        own = "" if isinstance(address, Unknown) else address
        if kind == "OSDev" and above is not None:
            own = above.device
        thing = Thing(
            kind=kind,
            line=line,
            number=_digits(given.get("gp_index", "")),
            attributes=given,
            infos={},
            nodes=nodes,
            device=own,
            parent=above.device if above is not None and kind != "OSDev" else None,
        )
        self._open.append(thing)
        if kind in ("Machine", "Package", "NUMANode", "Core", "PU", "PCIDev", "Bridge", "OSDev"):
            self._kept.append(thing)

    def _close(self) -> None:
        if self._open:
            self._open.pop()
            self._nodes.pop()

    def _take_info(self, given: dict[str, str]) -> None:
        name, value = given.get("name", ""), given.get("value", "")
        owner = self._open[-1] if self._open else None
        if owner is None or owner.kind == "Machine":
            self.infos.setdefault(name, value)
        else:
            owner.infos.setdefault(name, value)

    def _take_matrix(self, given: dict[str, str] | None) -> None:
        if given is not None:
            self._matrix, self._indexes, self._values = given, [], []
        elif self._matrix is not None:
            self.matrices.append(
                Matrix(
                    name=self._matrix.get("name", ""),
                    kind=self._matrix.get("type", ""),
                    indexes=tuple(self._indexes),
                    values=tuple(_digits(value) or 0 for value in self._values),
                )
            )
            self._matrix = None
