"""Parse hwloc's XML (`lstopo --of xml`), formats 1.x to 3.0.

Some kernels show the memory of a GPU as a NUMA node; hwloc gives this node the subtype GPUMemory.
`pci_link_speed` is a bandwidth, from which generation and width cannot be derived. Source: hwloc,
hwloc/topology-xml.c and hwloc2.dtd (read 2026-11).
"""

import re
from collections.abc import Mapping

import msgspec

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Record, Unknown, line_ref, value_or
from probes.facts import Cpu, Dmi, Gpu, Link, Nic, NumaNode, PciDevice, Unread
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.host.cpulist import mask_cpus, mask_list
from probes.parsers.topology.hwloc_distances import Matrix, latency_rows, nvlink_counts
from probes.parsers.topology.pci_addresses import End, normal_address, tree_links
from probes.parsers.topology.pci_classes import driver_name, kind_of, nic_of_device
from probes.parsers.topology.xml_events import Element, walk

_MARK = re.compile(
    r"<topology(?: version=\"[\d.]{1,8}\")?>|<object type=\"(?:Machine|Package|Socket|NUMANode|PU)\""
)
_TAGS = ("topology", "object ")
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}:[0-9a-f]{4})\].{0,60}")
_OPENFABRICS = {"3", "32", "48"}
"""Types of OS devices with RDMA.

The type is a number until format 2.x, and a set of bits since 3.0 (network 16, OpenFabrics 32).
"""
_PORT_STATES = {"1": "DOWN", "2": "INIT", "3": "ARMED", "4": "ACTIVE"}
"""Port states by PortState of the InfiniBand Architecture Specification, vol. 1."""
_KINDS = {"Socket": "Package", "Node": "NUMANode"}
"""New names of the types that had another name in format 1.x."""


class HwlocObject(Record, kw_only=True):
    """An object of the machine.

    `Hwloc.objects` has only the machine, packages, NUMA nodes, cores, PUs and I/O devices.
    """

    kind: str
    line: int
    number: int | None
    attributes: dict[str, str]
    infos: dict[str, str]
    nodes: tuple[int, ...] = ()
    """NUMA nodes near the object."""
    device: str = ""
    """PCI address of the device to which the object belongs."""
    parent: str | None = None
    """PCI address of the bridge above the object."""


class Hwloc(Record, kw_only=True):
    """Content of one file, as far as it could be read."""

    objects: tuple[HwlocObject, ...]
    matrices: tuple[Matrix, ...]
    infos: dict[str, str]
    unread: tuple[Unread, ...] = ()

    def of_kinds(self, *kinds: str) -> tuple[HwlocObject, ...]:
        """Return the objects of the given types."""
        return tuple(hwloc_object for hwloc_object in self.objects if hwloc_object.kind in kinds)

    def pci_devices(self, *kinds: str) -> tuple[PciDevice, ...]:
        """Return the PCI devices among the objects of the given types."""
        return tuple(_device(hwloc_object) for hwloc_object in self.of_kinds(*kinds) if hwloc_object.device)


def recognise(text: str) -> bool:
    return _MARK.search(text) is not None


def parse_hwloc(text: str) -> Hwloc:
    reader = _Reader()
    end = walk(text, _TAGS, reader.take)
    unread = () if end is None else (Unread(source="", line=end[0], why=end[1]),)
    return Hwloc(
        objects=tuple(reader.objects), matrices=tuple(reader.matrices), infos=reader.infos, unread=unread
    )


def parse_unread(text: str) -> tuple[Unread, ...]:
    return parse_hwloc(text).unread


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    return parse_hwloc(text).pci_devices("PCIDev", "Bridge")


def _device(hwloc_object: HwlocObject) -> PciDevice:
    match = _PCI_TYPE.fullmatch(hwloc_object.attributes.get("pci_type", ""))
    class_code: str | Unknown = match[1] if match else NOT_RECORDED
    device_id: str | Unknown = match[2] if match and match[2] != "0000:0000" else NOT_RECORDED
    is_switch = hwloc_object.attributes.get("subtype") == "NVSwitch"
    return PciDevice(
        bus_id=hwloc_object.device,
        kind="nvswitch" if is_switch else kind_of(class_code, device_id),
        device_id=device_id,
        class_code=class_code,
        name=hwloc_object.infos.get("PCIDevice", NOT_RECORDED),
        slot=hwloc_object.infos.get("PCISlot", NOT_RECORDED),
        parent=hwloc_object.parent,
        numa_node=hwloc_object.nodes[0] if len(hwloc_object.nodes) == 1 else None,
        evidence=(line_ref(hwloc_object.line),),
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs, with NVML's numbers if the file contains NVML devices for all of them."""
    hwloc = parse_hwloc(text)
    os_devices = _os_devices(hwloc)
    gpus = _gpu_devices(hwloc, os_devices)
    numbers = _nvml_numbers([device for _, device in gpus], os_devices)
    return tuple(
        _gpu(index if numbers else UNNUMBERED, device, os_devices.get(device.bus_id, []))
        for index, device in gpus
    )


def _os_devices(hwloc: Hwloc) -> dict[str, list[HwlocObject]]:
    """Return the OS devices (nvml0, cuda0, mlx5_0) of each PCI device."""
    return grouped(
        (hwloc_object.device, hwloc_object) for hwloc_object in hwloc.of_kinds("OSDev") if hwloc_object.device
    )


def _gpu_devices(hwloc: Hwloc, os_devices: dict[str, list[HwlocObject]]) -> list[tuple[int, PciDevice]]:
    """Return the GPUs with NVML's numbers, or else numbered in the order of their addresses, as in NVML."""
    devices = [
        device
        for device in hwloc.pci_devices("PCIDev")
        if device.kind == "gpu" or _nvml_name(os_devices.get(device.bus_id, [])) is not None
    ]
    devices.sort(key=lambda device: device.bus_id)
    numbers = _nvml_numbers(devices, os_devices) or range(len(devices))
    return sorted(zip(numbers, devices, strict=True), key=lambda pair: pair[0])


def _nvml_name(os_devices: list[HwlocObject]) -> str | None:
    """Return the name of the NVML device (`nvml0`) among the OS devices of a GPU; None if there is none."""
    names = (os_device.attributes.get("name", "") for os_device in os_devices)
    return next((name for name in names if name.startswith("nvml")), None)


def _nvml_numbers(devices: list[PciDevice], os_devices: dict[str, list[HwlocObject]]) -> tuple[int, ...]:
    """Return the N of each device's nvmlN; empty if a device has no NVML device."""
    names = [_nvml_name(os_devices.get(device.bus_id, [])) or "" for device in devices]
    numbers = [_digits(name.removeprefix("nvml")) for name in names]
    known = tuple(number for number in numbers if number is not None and number < 10_000)
    return known if len(set(known)) == len(devices) else ()


def _infos_of(os_devices: list[HwlocObject]) -> dict[str, str]:
    """Return the infos of the OS devices of one PCI device; if a name is repeated, the first value counts."""
    return {name: value for os_device in reversed(os_devices) for name, value in os_device.infos.items()}


def _gpu(index: int, device: PciDevice, os_devices: list[HwlocObject]) -> Gpu:
    infos = _infos_of(os_devices)
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
    """Return the RDMA ports if the file contains port states, otherwise one record per RDMA device."""
    hwloc = parse_hwloc(text)
    devices = {device.bus_id: device for device in hwloc.pci_devices("PCIDev")}
    nics: list[Nic] = []
    for hwloc_object in hwloc.of_kinds("OSDev"):
        name = hwloc_object.attributes.get("name", "")
        is_rdma = (
            "NodeGUID" in hwloc_object.infos or hwloc_object.attributes.get("osdev_type") in _OPENFABRICS
        )
        if name and is_rdma and hwloc_object.attributes.get("subtype") not in _STORAGE:
            nics += _ports(name, hwloc_object, devices.get(hwloc_object.device))
    unnamed = {device.bus_id for device in devices.values() if device.kind == "rdma"} - {
        nic.pci_bus_id for nic in nics
    }
    return (*nics, *(nic_of_device(device) for address, device in devices.items() if address in unnamed))


_STORAGE = frozenset({"Disk", "NVM", "MemoryModule", "Tape"})


def _ports(name: str, hwloc_object: HwlocObject, device: PciDevice | None) -> list[Nic]:
    base = nic_of_device(device, name) if device is not None else Nic(name=name)
    base = msgspec.structs.replace(
        base,
        node_guid=hwloc_object.infos.get("NodeGUID", NOT_RECORDED),
        evidence=(line_ref(hwloc_object.line),),
    )
    states = {
        int(key[4:-5]): _PORT_STATES.get(value, NOT_RECORDED)
        for key, value in hwloc_object.infos.items()
        if key.startswith("Port") and key.endswith("State") and key[4:-5].isdecimal() and len(key) < 13
    }
    return [
        msgspec.structs.replace(base, port=port, state=state) for port, state in sorted(states.items())
    ] or [base]


def parse_links(text: str) -> tuple[Link, ...]:
    """Return the links between all GPUs and RDMA devices.

    A link is NVLink if the file contains its bandwidth; otherwise the PCI tree shows its kind.
    """
    hwloc = parse_hwloc(text)
    devices = {device.bus_id: device for device in hwloc.pci_devices("PCIDev", "Bridge")}
    os_devices = _os_devices(hwloc)
    gpus = _gpu_devices(hwloc, os_devices)
    ends = [End(f"GPU{index}", device) for index, device in gpus]
    for nic in parse_nics(text):
        device = devices.get(str(nic.pci_bus_id))
        if device is not None and nic.port == 1:
            ends.append(End(nic.name or device.bus_id, device))
    by_number = {
        (hwloc_object.kind, hwloc_object.number): hwloc_object.device
        for hwloc_object in hwloc.objects
        if hwloc_object.number is not None
    }
    models = {
        device.bus_id: _infos_of(os_devices.get(device.bus_id, [])).get("GPUModel", "") for _, device in gpus
    }
    return tree_links(ends, devices, nvlink_counts(hwloc.matrices, by_number, models))


def parse_cpu(text: str) -> Cpu:
    hwloc = parse_hwloc(text)
    machine, packages = hwloc.of_kinds("Machine"), hwloc.of_kinds("Package")
    cores, processing_units = hwloc.of_kinds("Core"), hwloc.of_kinds("PU")
    models = [package.infos["CPUModel"] for package in packages if "CPUModel" in package.infos]
    allowed = mask_cpus(machine[0].attributes.get("allowed_cpuset", "")) if machine else NOT_RECORDED
    is_complete = not hwloc.unread
    return Cpu(
        model=models[0].strip() if models else hwloc.infos.get("CPUModel", NOT_RECORDED),
        architecture=hwloc.infos.get("Architecture", NOT_RECORDED),
        sockets=len(packages) if packages and is_complete else NOT_RECORDED,
        physical_cores=len(cores) if cores and is_complete else NOT_RECORDED,
        logical_cpus=len(processing_units) if processing_units and is_complete else NOT_RECORDED,
        allowed_cpus=NOT_RECORDED if isinstance(allowed, Unknown) or not allowed else len(allowed),
        evidence=(line_ref(machine[0].line),) if machine else (),
    )


def parse_dmi(text: str) -> Dmi:
    return dmi_of_infos(parse_hwloc(text).infos)


def dmi_of_infos(infos: Mapping[str, str]) -> Dmi:
    """Return the vendor's names among the infos that hwloc prints for the machine."""
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
    for attributes in (hwloc_object.attributes for hwloc_object in hwloc.of_kinds("NUMANode")):
        index, memory = (_digits(attributes.get(name, "")) for name in ("os_index", "local_memory"))
        if index is not None:
            is_gpu = attributes.get("subtype") == "GPUMemory"
            cpus = mask_list(attributes["cpuset"]) if "cpuset" in attributes else NOT_RECORDED
            nodes[index] = NumaNode(
                index=index,
                cpus="" if is_gpu else cpus,
                memory_bytes=NOT_RECORDED if memory is None else memory,
                distances=distances.get(index, NOT_RECORDED),
                is_gpu_memory=is_gpu,
            )
    return tuple(nodes[index] for index in sorted(nodes))


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class _Reader:
    """Collects the objects and matrices of the elements, which arrive one after the other."""

    def __init__(self) -> None:
        self.infos: dict[str, str] = {}
        self.matrices: list[Matrix] = []
        self.objects: list[HwlocObject] = []
        self._open: list[HwlocObject] = []
        self._matrix: dict[str, str] | None = None
        self._indexes: list[str] = []
        self._values: list[str] = []

    def take(self, element: Element) -> None:
        attributes = element.attributes
        match element.tag:
            case "object" if attributes is not None:
                self._begin(element.line, attributes)
            case "object" if self._open:
                self._open.pop()
            case "info" if attributes is not None:
                self._take_info(attributes)
            case "distances2" | "distances2hetero":
                self._take_matrix(attributes)
            case "indexes" if attributes is None:
                self._indexes += element.text.split()
            case "u64values" if attributes is None:
                self._values += element.text.split()

    def _begin(self, line: int, attributes: dict[str, str]) -> None:
        kind = _KINDS.get(attributes.get("type", ""), attributes.get("type", ""))
        above = next((parent.device for parent in reversed(self._open) if parent.device), None)
        is_os_device = kind == "OSDev"
        # An I/O object has no set of nodes. It is near the nodes of the object above.
        nodes = self._open[-1].nodes if self._open else ()
        if kind not in ("PCIDev", "Bridge", "OSDev", "Misc") and (mask := attributes.get("nodeset")):
            nodes = value_or(mask_cpus(mask), nodes)
        own = value_or(normal_address(attributes.get("pci_busid", "")), "")
        hwloc_object = HwlocObject(
            kind=kind,
            line=line,
            number=_digits(attributes.get("gp_index", "")),
            attributes=attributes,
            infos={},
            nodes=nodes,
            device=above if is_os_device and above is not None else own,
            parent=None if is_os_device else above,
        )
        self._open.append(hwloc_object)
        if kind in ("Machine", "Package", "NUMANode", "Core", "PU", "PCIDev", "Bridge", "OSDev"):
            self.objects.append(hwloc_object)

    def _take_info(self, attributes: dict[str, str]) -> None:
        owner = self._open[-1] if self._open else None
        infos = self.infos if owner is None or owner.kind == "Machine" else owner.infos
        infos.setdefault(attributes.get("name", ""), attributes.get("value", ""))

    def _take_matrix(self, attributes: dict[str, str] | None) -> None:
        if attributes is not None:
            self._matrix, self._indexes, self._values = attributes, [], []
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
