"""Parse `lstopo` on a console: an indented tree, short or verbose (`lstopo -v`)."""

import re

from probes.base.grouping import folded, grouped
from probes.base.record import NOT_RECORDED, Record, Unknown, line_ref, value_or
from probes.base.units import GIB, KIB, MIB
from probes.facts import Cpu, Dmi, Gpu, NumaNode, PciDevice
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.topology.hwloc_xml import dmi_of_infos
from probes.parsers.topology.pci_addresses import normal_address
from probes.parsers.topology.pci_classes import kind_of

_LINE = re.compile(
    r"( *)([A-Z][A-Za-z0-9]{1,20})(\([A-Za-z]{1,20}\))?(?: L#(\d{1,6}))?(?: \"([^\"]{1,80})\")?(.{0,4000})"
)
_MARK = re.compile(
    r"^Machine (?:L#0 )?\(.{0,4000}$(?:\n.*){0,3}\n +(?:Package|NUMANode|Socket|Group\d?|Die)\b", re.MULTILINE
)
_NUMBER = re.compile(r"[( ]P#(\d{1,6})\b")
_LOCAL = re.compile(r"\(?(?:P#\d{1,6} )?(?:local=)?(\d{1,9})(KB|KiB|MB|MiB|GB|GiB|TB|TiB)\b")
_FIELD = re.compile(r"\b([A-Za-z]{3,30})=(?:\"([^\"]{0,200})\"|(\S{1,80}?)(?=[\s)]|$))")
_BUSID = re.compile(r"\bbusid=([0-9a-f:.]{7,16})\b")
_SHORT_PCI = re.compile(r" ?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \((.{1,30})\)")
_PCI_IDS = re.compile(r"\bid=([0-9a-f]{4}:[0-9a-f]{4}) class=([0-9a-f]{4})")
_OLD_IDS = re.compile(r" ?([0-9a-f]{4}:[0-9a-f]{4}) \(.{0,60}?\bclass=([0-9a-f]{4})\(")
"""Device and class of hwloc 1.x and early 2.0, which print the device before the brackets."""
_UNITS = {
    "KB": KIB,
    "KiB": KIB,
    "MB": MIB,
    "MiB": MIB,
    "GB": GIB,
    "GiB": GIB,
    "TB": 1024 * GIB,
    "TiB": 1024 * GIB,
}
_SHORT_CLASSES = {
    "3D": "0302",
    "VGA": "0300",
    "Ethernet": "0200",
    "InfiniBand": "0207",
    "NVMExp": "0108",
    "SATA": "0106",
}
_MOST_LINES = 200_000


class _Line(Record, kw_only=True):
    number: int
    depth: int
    kind: str
    subtype: str
    text: str
    name: str
    above: tuple[int, ...]
    """Positions of the lines above this one in the tree, the nearest last."""


def recognise(text: str) -> bool:
    return _MARK.search(text[:20_000]) is not None


def parse_cpu(text: str) -> Cpu:
    lines = _lines(text)
    kinds = [line.kind for line in lines]
    fields = _fields(next((line.text for line in lines if line.kind in ("Package", "Socket")), ""))
    summary = _fields(next((row for row in text.splitlines() if row.startswith("Topology infos:")), ""))
    return Cpu(
        model=fields.get("CPUModel", NOT_RECORDED),
        architecture=summary.get("Architecture", NOT_RECORDED),
        sockets=kinds.count("Package") + kinds.count("Socket") or NOT_RECORDED,
        physical_cores=kinds.count("Core") or NOT_RECORDED,
        logical_cpus=kinds.count("PU") or NOT_RECORDED,
        evidence=(line_ref(lines[0].number),) if lines else (),
    )


def parse_dmi(text: str) -> Dmi:
    return dmi_of_infos(_fields(next((line.text for line in _lines(text) if line.kind == "Machine"), "")))


def parse_numa_nodes(text: str) -> tuple[NumaNode, ...]:
    """Return the nodes with the CPUs beside them in the tree; a GPU's memory node has no CPUs."""
    lines = _lines(text)
    cpus = grouped(
        (position, int(number[1]))
        for line in lines
        if line.kind == "PU" and (number := _NUMBER.search(line.text))
        for position in line.above
    )
    nodes: dict[int, NumaNode] = {}
    for position, line in enumerate(lines):
        if line.kind == "NUMANode" and (number := _NUMBER.search(line.text)) is not None:
            is_gpu = line.subtype == "(GPUMemory)"
            # hwloc 1.x draws the CPUs below their node, 2.x beside it.
            node_cpus = cpus.get(position) or cpus.get(line.above[-1] if line.above else -1, [])
            memory = _LOCAL.search(line.text)
            nodes[int(number[1])] = NumaNode(
                index=int(number[1]),
                cpus="" if is_gpu else folded(node_cpus),
                memory_bytes=int(memory[1]) * _UNITS[memory[2]] if memory else NOT_RECORDED,
                is_gpu_memory=is_gpu,
            )
    return tuple(nodes[index] for index in sorted(nodes))


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    lines = _lines(text)
    nodes = {
        line.above[-1] if line.above else -1: line
        for line in reversed(lines)
        if line.kind == "NUMANode" and not line.subtype
    }
    owners = _os_device_names(lines)
    devices: dict[str, PciDevice] = {}
    for position, line in enumerate(lines):
        if (address := _address(line)) is not None:
            nearest_text = next((nodes[above].text for above in reversed(line.above) if above in nodes), "")
            number = _NUMBER.search(nearest_text)
            node = int(number[1]) if number else NOT_RECORDED
            devices.setdefault(address, _device(line, address, node, owners.get(position, ())))
    return tuple(devices.values())


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs among the PCI devices."""
    return tuple(
        Gpu(
            index=UNNUMBERED,
            pci_bus_id=device.bus_id,
            pci_device_id=device.device_id,
            numa_node=device.numa_node,
            evidence=device.evidence,
        )
        for device in parse_devices(text)
        if device.kind == "gpu"
    )


def _device(line: _Line, address: str, node: int | Unknown, owned: tuple[str, ...]) -> PciDevice:
    ids, short = _PCI_IDS.search(line.text) or _OLD_IDS.match(line.text), _SHORT_PCI.match(line.text)
    class_code: str | Unknown = ids[2] if ids else _SHORT_CLASSES.get(short[2] if short else "", NOT_RECORDED)
    device_id: str | Unknown = ids[1] if ids and ids[1] != "0000:0000" else NOT_RECORDED
    kind = kind_of(class_code, device_id)
    if "gpu-memory" in owned or any(name.startswith(("nvml", "cuda")) for name in owned):
        kind = "gpu"
    elif any(name.startswith(("mlx", "hfi", "qib", "rdma", "bnxt_re", "irdma", "efa")) for name in owned):
        kind = "rdma"
    return PciDevice(
        bus_id=address,
        kind=kind,
        device_id=device_id,
        class_code=class_code,
        numa_node=node,
        evidence=(line_ref(line.number),),
    )


def _os_device_names(lines: list[_Line]) -> dict[int, tuple[str, ...]]:
    """Return the names of the OS devices below each PCI line.

    `gpu-memory` is added for the PCI device whose address is the PCIBusID of a GPU's memory node.
    """
    names: dict[int, tuple[str, ...]] = {}
    addresses = {
        address: position for position, line in enumerate(lines) if (address := _address(line)) is not None
    }
    for line in lines:
        if line.name and line.above:
            names[line.above[-1]] = (*names.get(line.above[-1], ()), line.name)
        if line.subtype == "(GPUMemory)":
            gpu = value_or(normal_address(_fields(line.text).get("PCIBusID", "")), "")
            if gpu in addresses:
                names[addresses[gpu]] = (*names.get(addresses[gpu], ()), "gpu-memory")
    return names


def _address(line: _Line) -> str | None:
    is_pci = line.kind in ("PCI", "PCIDev")
    match = (_BUSID.search(line.text) or _SHORT_PCI.match(line.text)) if is_pci else None
    return value_or(normal_address(match[1]), None) if match else None


def _fields(text: str) -> dict[str, str]:
    return {
        match[1]: match[2] if match[2] is not None else match[3] for match in _FIELD.finditer(text[:4000])
    }


def _lines(text: str) -> list[_Line]:
    """Return the lines of the tree.

    Of several objects in one line (`L2 L#0 (256KB) + Core L#0 + PU L#0 (P#4)`), each object is below the
    object before.
    """
    lines: list[_Line] = []
    open_lines: list[tuple[int, int]] = []
    for number, row in enumerate(text.splitlines()[:_MOST_LINES], 1):
        if row.startswith(("depth", "Special", "Topology", "Relative", "Memory attribute", " depth")):
            continue
        for order, part in enumerate(row.split(" + ")):
            match = _LINE.fullmatch(part)
            if match is None:
                break
            depth = len(match[1]) if order == 0 else open_lines[-1][0] + 1
            while open_lines and open_lines[-1][0] >= depth:
                open_lines.pop()
            lines.append(
                _Line(
                    number=number,
                    depth=depth,
                    kind=match[2],
                    subtype=match[3] or "",
                    text=match[6],
                    name=match[5] or "",
                    above=tuple(position for _, position in open_lines),
                )
            )
            open_lines.append((depth, len(lines) - 1))
    return lines
