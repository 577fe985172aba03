"""Parse NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), also AMD's (RCCL).

`link_speed` and `link_width` are the maximum of the path (`max_link_speed` of sysfs), not the trained values.
A `pci` element of class 0604 is the upstream port of a switch, because NCCL leaves its downstream ports out.
A file without `gpu` and `net` elements is a template of a cloud: addresses without devices. A file without
NVLinks does not show that there are none, because NCCL may not have searched for NVLinks. Source:
NVIDIA/nccl, src/graph/xml.cc and topo.cc; ROCm/rccl (read 2026-11).
"""

import re
from itertools import combinations

import msgspec

from probes.base.record import NOT_RECORDED, Record, Unknown, first_unknown, line_ref, value_or
from probes.facts import Gpu, Interface, Link, LinkKind, Nic, NumaNode, NvLink, PciDevice, PcieLink, Unread
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.host.cpulist import mask_list
from probes.parsers.topology.pci_addresses import link_generation, link_width, normal_address
from probes.parsers.topology.pci_classes import driver_name, kind_of, nic_of_device
from probes.parsers.topology.xml_events import Element, walk

_TAGS = ("system", "cpu ", "pci ")
_MARK = re.compile(r"<(?:cpu [^<>]{0,200}numaid=|pci busid=)|<system[^<>]{0,80}>\s{0,200}<cpu ")
_MOST_UNREAD = 20
_SOCKETS = "65536"
"""`maxconn` of the socket transport (src/transport/net_socket.cc)."""
_MOST_LINKS = 64
"""Maximum number of links between two devices; the largest GPU has 18."""
_GPU_CODES = frozenset({"0300", "0302", "0380", "1200"})
_GPU_CLASSES = ("0x03", "0x12")
"""First digits of the classes of display controllers and processing accelerators."""
_HEX = re.compile(r"0x[0-9a-fA-F]{4,8}")
_MODEL = re.compile(r"(?:gfx)?([0-9a-f]{3,4})")


class TopologyGpu(Record, kw_only=True):
    """Content of a `gpu` element."""

    dev: int
    sm: int | None
    gcn: str
    """Architecture of an AMD GPU, such as `gfx90a`; empty for NVIDIA."""
    nvlinks: tuple[tuple[str, int, bool], ...] = ()
    """Address of the other end, number of links, and whether the other end is a GPU."""


class TopologyNet(Record, kw_only=True):
    """Content of a `net` element."""

    name: str
    port: int
    speed_gbps: float | Unknown
    is_socket: bool
    """True if NCCL uses the interface over TCP: its socket transport has no ports and no GPUDirect."""
    numa_node: int | Unknown | None
    line: int


class TopologyPlace(Record, kw_only=True):
    """Content of a `pci` element."""

    device: PciDevice
    gpu: TopologyGpu | None = None
    nets: tuple[TopologyNet, ...] = ()

    def ports(self) -> tuple[TopologyNet, ...]:
        """Return the network devices with RDMA."""
        return tuple(net for net in self.nets if not net.is_socket)


class NcclTopology(Record, kw_only=True):
    """Content of one file, as far as it could be read."""

    places: tuple[TopologyPlace, ...]
    numa_nodes: tuple[NumaNode, ...]
    loose_nets: tuple[TopologyNet, ...] = ()
    """Network devices without a PCI device."""
    unread: tuple[Unread, ...] = ()


def recognise(text: str) -> bool:
    return _MARK.search(text) is not None


def parse_nccl_topology(text: str) -> NcclTopology:
    """Return the content of `text`, or of the part before the cut."""
    reader = _Reader()
    end = walk(text, _TAGS, reader.take)
    if end is not None:
        reader.add_unread(end[0], "", end[1])
    return reader.topology()


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    return tuple(place.device for place in parse_nccl_topology(text).places)


def parse_unread(text: str) -> tuple[Unread, ...]:
    return parse_nccl_topology(text).unread


def parse_numa_nodes(text: str) -> tuple[NumaNode, ...]:
    return parse_nccl_topology(text).numa_nodes


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the RDMA ports.

    NCCL names only active ports; a card without active ports is identified by its address.
    """
    topology = parse_nccl_topology(text)
    nics: list[Nic] = []
    for place in topology.places:
        if not place.nets and place.device.kind == "rdma":
            nics.append(nic_of_device(place.device))
        nics += [_nic(nic_of_device(place.device, net.name), net) for net in place.ports()]
    loose = (net for net in topology.loose_nets if not net.is_socket)
    named = (
        (Nic(name=net.name, numa_node=net.numa_node, evidence=(line_ref(net.line),)), net) for net in loose
    )
    return (*nics, *(_nic(nic, net) for nic, net in named))


def _nic(nic: Nic, net: TopologyNet) -> Nic:
    return msgspec.structs.replace(nic, port=max(net.port, 1), state="ACTIVE", rate_gbps=net.speed_gbps)


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Return the network interfaces that NCCL would use over TCP."""
    topology = parse_nccl_topology(text)
    sockets = [(net, place.device.bus_id) for place in topology.places for net in place.nets if net.is_socket]
    sockets += [(net, "") for net in topology.loose_nets if net.is_socket]
    return tuple(
        Interface(
            name=net.name,
            up=True,
            speed_gbps=net.speed_gbps,
            pci_bus_id=address or NOT_RECORDED,
            evidence=(line_ref(net.line),),
        )
        for net, address in sockets
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs by NCCL's numbers, which are NVML's numbers; the GPUs of a template have no numbers.

    NCCL counts the NVLinks for each other end but does not list their ports, so the links are numbered in the
    order of the file.
    """
    places = _gpu_places(parse_nccl_topology(text))
    return tuple(_gpu(place, UNNUMBERED if place.gpu is None else place.gpu.dev) for _, place in places)


def _gpu_places(topology: NcclTopology) -> list[tuple[int, TopologyPlace]]:
    """Return the places of the GPUs with NCCL's numbers, or else numbered by address, as in NVML."""
    places = [place for place in topology.places if place.device.kind == "gpu"]
    by_number = {place.gpu.dev: place for place in places if place.gpu is not None}
    if len(by_number) == len(places):
        return sorted(by_number.items())
    return list(enumerate(sorted(places, key=lambda place: place.device.bus_id)))


def _gpu(place: TopologyPlace, index: int) -> Gpu:
    device, gpu = place.device, place.gpu
    amd = f"AMD {gpu.gcn}" if gpu is not None and gpu.gcn else ""
    sm, links = (gpu.sm, gpu.nvlinks) if gpu is not None and not amd else (None, ())
    return Gpu(
        index=index,
        name=driver_name(value_or(device.device_id, "")) or amd or NOT_RECORDED,
        pci_bus_id=device.bus_id,
        pci_device_id=device.device_id,
        compute_capability=NOT_RECORDED if sm is None else f"{sm // 10}.{sm % 10}",
        pcie=device.pcie,
        numa_node=device.numa_node,
        nvlinks=_nvlinks(links) or NOT_RECORDED,
        evidence=device.evidence,
    )


def _nvlinks(links: tuple[tuple[str, int, bool], ...]) -> tuple[NvLink, ...]:
    ends = [target if is_gpu else "switch" for target, count, is_gpu in links for _ in range(count)]
    return tuple(NvLink(index=index, active=True, remote=end) for index, end in enumerate(ends))


def parse_links(text: str) -> tuple[Link, ...]:
    """Return the links of all GPUs and NICs. The XML has no host bridges, so PHB means the same NUMA node."""
    topology = parse_nccl_topology(text)
    ends = [(f"GPU{index}", place) for index, place in _gpu_places(topology)]
    for place in topology.places:
        is_unnamed = not place.nets and place.device.kind == "rdma"
        names = dict.fromkeys([place.device.bus_id] if is_unnamed else (net.name for net in place.ports()))
        ends += [(name, place) for name in names]
    parents = {place.device.bus_id: place.device.parent for place in topology.places}
    sees_nvlink = any(place.gpu is not None and place.gpu.nvlinks for _, place in ends)
    return tuple(_link(a, b, parents, sees_nvlink) for a, b in combinations(ends, 2))


End = tuple[str, TopologyPlace]


def _link(a: End, b: End, parents: dict[str, str | Unknown | None], sees_nvlink: bool) -> Link:
    """Return the link of two devices; `sees_nvlink` is False for a file that contains only the PCI tree."""
    count = _nvlink_count(a[1], b[1])
    return Link(
        a=a[0],
        b=b[0],
        kind="NVLINK" if count else _distance(a[1].device, b[1].device, parents),
        nvlink_count=count or None,
        sees_nvlink=sees_nvlink or bool(count),
        evidence=(*a[1].device.evidence, *b[1].device.evidence),
    )


def _nvlink_count(a: TopologyPlace, b: TopologyPlace) -> int:
    """Return the number of NVLinks (xGMI links on AMD) between two GPUs.

    If both are connected to NVSwitches, this is the number of the GPU with fewer links to switches.
    """
    if a.gpu is None or b.gpu is None:
        return 0
    direct = sum(count for target, count, _ in a.gpu.nvlinks if target == b.device.bus_id)
    to_switch = [sum(count for _, count, is_gpu in gpu.nvlinks if not is_gpu) for gpu in (a.gpu, b.gpu)]
    return direct or min(to_switch)


def _distance(a: PciDevice, b: PciDevice, parents: dict[str, str | Unknown | None]) -> LinkKind | Unknown:
    if a.bus_id == b.bus_id:
        return "PIX"
    above_a, above_b = _bridges_above(a, parents), _bridges_above(b, parents)
    common = next((bridge for bridge in above_a if bridge in above_b), None)
    if common is not None:
        # A switch directly above both devices is the only switch on their path.
        return "PIX" if common == above_a[0] == above_b[0] else "PXB"
    tops = [parents.get(above[-1]) if above else end.parent for above, end in ((above_a, a), (above_b, b))]
    return first_unknown(*tops) or ("PHB" if a.numa_node == b.numa_node else "SYS")


def _bridges_above(device: PciDevice, parents: dict[str, str | Unknown | None]) -> list[str]:
    """Return the switches above a device, the nearest first."""
    bridges: list[str] = []
    parent = device.parent
    while isinstance(parent, str) and parent not in bridges:
        bridges.append(parent)
        parent = parents.get(parent)
    return bridges


class _Reader:
    """Collects the elements, which arrive one after the other."""

    def __init__(self) -> None:
        self._places: list[_Place] = []
        self._open: list[_Place] = []
        self._numa: int | Unknown | None = NOT_RECORDED
        self._nodes: dict[int, NumaNode] = {}
        self._cpu: dict[str, str] = {}
        self._loose: list[TopologyNet] = []
        self._unread: list[Unread] = []

    def add_unread(self, line: int, text: str, why: str) -> None:
        if len(self._unread) < _MOST_UNREAD:
            self._unread.append(Unread(source="", line=line, text=text[:80], why=why))

    def take(self, element: Element) -> None:
        attributes = element.attributes or {}
        match element.tag:
            case "pci" if element.attributes is None and self._open:
                self._open.pop()
            case _ if element.attributes is None:
                pass
            case "cpu":
                self._open.clear()
                self._take_cpu(attributes)
            case "pci":
                self._take_pci(element.line, attributes)
            case "gpu" if self._open:
                self._open[-1].gpu = TopologyGpu(
                    dev=_whole(attributes.get("dev")) or 0,
                    sm=_whole(attributes.get("sm")),
                    gcn=_gcn(attributes),
                )
            case "net":
                self._take_net(element.line, attributes)
            case "nvlink" | "xgmi" if self._open and self._open[-1].gpu is not None:
                self._take_nvlink(element.line, attributes)

    def _take_cpu(self, attributes: dict[str, str]) -> None:
        self._cpu = self._cpu or attributes
        node, mask = _whole(attributes.get("numaid")), attributes.get("affinity")
        missing = None if attributes.get("numaid") == "-1" else NOT_RECORDED
        self._numa = missing if node is None else node
        if node is not None:
            self._nodes.setdefault(node, NumaNode(index=node, cpus=mask_list(mask) if mask else NOT_RECORDED))

    def _take_pci(self, line: int, attributes: dict[str, str]) -> None:
        address = normal_address(attributes.get("busid", ""))
        if isinstance(address, Unknown):
            self.add_unread(line, attributes.get("busid", ""), "pci element without an address")
            address = ""
        # Without a `cpu` element around this one, the beginning of the file was cut off.
        top = None if self._cpu else NOT_RECORDED
        parent = self._open[-1].address or None if self._open else top
        self._open.append(_Place(line, address, parent, self._numa, attributes))
        if address:
            self._places.append(self._open[-1])

    def _take_net(self, line: int, attributes: dict[str, str]) -> None:
        name, speed = attributes.get("name", ""), _whole(attributes.get("speed"))
        if not name:
            self.add_unread(line, "", "net element without a name")
            return
        port = _whole(attributes.get("port")) or 0
        has_sockets = attributes.get("maxconn", _SOCKETS) == _SOCKETS
        net = TopologyNet(
            name=name,
            port=port,
            speed_gbps=speed / 1000 if speed else NOT_RECORDED,
            is_socket=port == 0 and attributes.get("gdr", "0") == "0" and has_sockets,
            numa_node=self._numa,
            line=line,
        )
        (self._open[-1].nets if self._open else self._loose).append(net)

    def _take_nvlink(self, line: int, attributes: dict[str, str]) -> None:
        count, gpu = _whole(attributes.get("count")), self._open[-1].gpu
        if count is None or not 0 < count <= _MOST_LINKS or gpu is None:
            self.add_unread(line, str(attributes), "link element without a count")
            return
        target = normal_address(attributes.get("target", ""))
        end = (str(target), count, attributes.get("tclass", "").startswith(_GPU_CLASSES))
        self._open[-1].gpu = msgspec.structs.replace(gpu, nvlinks=(*gpu.nvlinks, end))

    def topology(self) -> NcclTopology:
        return NcclTopology(
            places=tuple(place.record() for place in self._places),
            numa_nodes=tuple(self._nodes[index] for index in sorted(self._nodes)),
            loose_nets=tuple(self._loose),
            unread=tuple(self._unread),
        )


class _Place:
    """A `pci` element whose content is being read."""

    def __init__(
        self,
        line: int,
        address: str,
        parent: str | Unknown | None,
        numa: int | Unknown | None,
        attributes: dict[str, str],
    ) -> None:
        self.address = address
        self.gpu: TopologyGpu | None = None
        self.nets: list[TopologyNet] = []
        self._line, self._parent, self._numa, self._attributes = line, parent, numa, attributes

    def record(self) -> TopologyPlace:
        attributes = self._attributes
        speed, width = attributes.get("link_speed"), attributes.get("link_width")
        code = attributes.get("class", "").lower().removeprefix("0x")[:4]
        class_code: str | Unknown = code if len(code) == len("0302") else NOT_RECORDED
        device_id = _device_id(attributes)
        kind = kind_of(class_code, device_id)
        is_nameless = isinstance(device_id, Unknown)
        if self.gpu is not None or (is_nameless and code in _GPU_CODES):
            kind = "gpu"
        elif kind == "ethernet" and (
            any(not net.is_socket for net in self.nets) or (is_nameless and not self.nets)
        ):
            kind = "rdma"  # A template lists only devices that NCCL should use.
        device = PciDevice(
            bus_id=self.address,
            kind=kind,
            device_id=device_id,
            class_code=class_code,
            parent=self._parent,
            numa_node=self._numa,
            pcie=PcieLink(
                generation_max=link_generation(speed) if speed is not None else NOT_RECORDED,
                width_max=link_width(width) if width is not None else NOT_RECORDED,
            ),
            evidence=(line_ref(self._line),),
        )
        return TopologyPlace(device=device, gpu=self.gpu, nets=tuple(self.nets))


def _device_id(attributes: dict[str, str]) -> str | Unknown:
    words = [attributes.get(name, "") for name in ("vendor", "device")]
    vendor, device = (int(word, 16) if _HEX.fullmatch(word) else None for word in words)
    return f"{vendor:04x}:{device:04x}" if vendor and device is not None else NOT_RECORDED


def _gcn(attributes: dict[str, str]) -> str:
    match = _MODEL.fullmatch(attributes.get("gcn", ""))
    return f"gfx{match[1]}" if match else ""


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None
