"""A catalogue machine as a source, which answers like a machine of that type.

The same collectors work on this source. Facts that depend on the individual machine (temperatures, processes,
limits, IP addresses) are not recorded and stay unknown. The devices are placed on the PCI bus so that their
sysfs paths show the distances in the row.
"""

from collections.abc import Iterator
from itertools import count

import msgspec

from probes.base.record import Reason, Unknown
from probes.catalogue.hardware import GpuModel, MachineModel
from probes.sources.base import NvmlValue
from probes.sources.recording import Answers
from probes.sources.stored import StoredSource

_DEVICES = "/sys/bus/pci/devices"
_VENDORS = {"nvidia": "0x10de", "mellanox": "0x15b3", "amazon": "0x1d0f"}
"""PCI vendor ids (pci.ids)."""
_CLASS_3D, _CLASS_INFINIBAND, _CLASS_ETHERNET = "0x030200", "0x020700", "0x020000"
"""PCI Code and ID Assignment Specification 1.11."""
_INFINIBAND_SPEEDS: dict[float, str] = {100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
"""Names of the lane speeds, by the rate of four lanes (InfiniBand Architecture Specification 1.7)."""
_SPEED_FIELD = 90
"""NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON (nvml.h)."""
_REMOTE_GPU, _REMOTE_SWITCH = 0, 2
"""nvmlIntNvLinkDeviceType_t (nvml.h)."""


def catalogue_source(machine: MachineModel, gpu: GpuModel) -> StoredSource:
    """Return a source that answers like `machine` with GPUs of the model `gpu`."""
    layout = lay_out(machine)
    answers = Answers()
    _host(answers, machine)
    _processors(answers, machine)
    _numa_nodes(answers, machine)
    answers.nvml("nvmlSystemGetDriverVersion", value=machine.driver_version)
    major, minor = map(int, machine.cuda_driver_version.split("."))
    answers.nvml("nvmlSystemGetCudaDriverVersion", value=1000 * major + 10 * minor)
    answers.nvml("nvmlDeviceGetCount", value=machine.gpu_count)
    for index, place in enumerate(layout.gpus):
        _gpu(answers, gpu, index, place)
        _nvlinks(answers, machine, gpu, index, layout)
        _pci_device(answers, machine, place, _VENDORS["nvidia"], _CLASS_3D)
        _pcie_link(answers, place, gpu.pcie_generation, gpu.pcie_width)
    for index, place in enumerate(layout.nics):
        _nic(answers, machine, index, place)
    if not layout.nics:
        answers.directories["/sys/class/infiniband"] = Unknown(
            Reason.TOOL_MISSING, "this machine has no RDMA devices"
        )
    _ethernet(answers, machine, layout.ethernet)
    answers.list_directories()
    return StoredSource(answers.recording(f"catalogue machine {machine.id}"))


def _host(answers: Answers, machine: MachineModel) -> None:
    answers.text("/etc/os-release", f'PRETTY_NAME="{machine.operating_system}"')
    answers.text("/proc/meminfo", f"MemTotal: {machine.memory_bytes // 1024} kB")
    answers.text("/proc/sys/kernel/arch", machine.architecture)
    for name, value in machine.dmi.items():
        answers.text(f"/sys/class/dmi/id/{name}", value)


def _processors(answers: Answers, machine: MachineModel) -> None:
    cores = machine.sockets * machine.cores_per_socket
    flags = " ".join((*machine.cpu_flags, *(("hypervisor",) if machine.virtual else ())))
    blocks = []
    for cpu in range(cores * machine.threads_per_core):
        core = cpu % cores
        socket, core_id = divmod(core, machine.cores_per_socket)
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        answers.text(f"{folder}/physical_package_id", socket)
        answers.text(f"{folder}/core_id", core_id)
        if machine.architecture == "x86_64":
            block = f"physical id\t: {socket}\ncore id\t\t: {core_id}\nflags\t\t: lm {flags}\n"
        else:
            block = f"Features\t: {flags}\nCPU architecture: 8\n"
        blocks.append(f"processor\t: {cpu}\nmodel name\t: {machine.cpu_model}\n{block}")
    answers.text("/proc/cpuinfo", "\n".join(blocks))
    answers.text("/sys/devices/system/cpu/online", _span(0, len(blocks)))


def _numa_nodes(answers: Answers, machine: MachineModel) -> None:
    answers.text("/sys/devices/system/node/online", _span(0, machine.numa_nodes))
    for node in range(machine.numa_nodes):
        folder = f"/sys/devices/system/node/node{node}"
        answers.text(f"{folder}/cpulist", _cpus_of(machine, node))
        answers.text(
            f"{folder}/meminfo",
            f"Node {node} MemTotal: {machine.memory_bytes // machine.numa_nodes // 1024} kB",
        )


def _cpus_of(machine: MachineModel, node: int) -> str:
    """Return the CPU list of a NUMA node in Linux order.

    The order is: all cores node by node, then their second threads.
    """
    cores = machine.sockets * machine.cores_per_socket
    per_node = cores // machine.numa_nodes
    starts = (thread * cores + node * per_node for thread in range(machine.threads_per_core))
    return ",".join(_span(start, per_node) for start in starts)


def _span(start: int, length: int) -> str:
    return f"{start}-{start + length - 1}" if length > 1 else str(start)


def _gpu(answers: Answers, gpu: GpuModel, index: int, place: "Place") -> None:
    major, minor = map(int, gpu.compute_capability.split("."))
    answers.nvml("nvmlDeviceGetName", index, value=gpu.driver_name)
    answers.nvml(
        "nvmlDeviceGetMemoryInfo", index, value={"total": gpu.memory_bytes, "free": None, "used": None}
    )
    answers.nvml("nvmlDeviceGetPciInfo", index, value={"busId": f"0000{place.address.upper()}"})
    answers.nvml("nvmlDeviceGetCudaComputeCapability", index, value=[major, minor])
    for state in ("Curr", "Max"):
        answers.nvml(f"nvmlDeviceGet{state}PcieLinkGeneration", index, value=gpu.pcie_generation)
        answers.nvml(f"nvmlDeviceGet{state}PcieLinkWidth", index, value=gpu.pcie_width)
    if gpu.power_limit_w is not None:
        answers.nvml("nvmlDeviceGetPowerManagementDefaultLimit", index, value=round(gpu.power_limit_w * 1000))


def _nvlinks(answers: Answers, machine: MachineModel, gpu: GpuModel, index: int, layout: "Layout") -> None:
    """Add answers in which all links of a GPU lead to switches, or to the other GPU of its pair."""
    partner = index ^ 1
    ports = machine.nvlink_count if machine.nvswitch or partner < machine.gpu_count else 0
    for port in range(ports):
        answers.nvml("nvmlDeviceGetNvLinkState", index, port, value=1)
        kind = _REMOTE_SWITCH if machine.nvswitch else _REMOTE_GPU
        answers.nvml("nvmlDeviceGetNvLinkRemoteDeviceType", index, port, value=kind)
        if not machine.nvswitch:
            remote = f"0000{layout.gpus[partner].address.upper()}"
            answers.nvml("nvmlDeviceGetNvLinkRemotePciInfo", index, port, value={"busId": remote})
    answers.nvml(
        "nvmlDeviceGetNvLinkState",
        index,
        ports,
        value=Unknown(Reason.NOT_SUPPORTED, "there is no such NVLink"),
    )
    if ports:
        speed: NvmlValue = {
            "nvmlReturn": 0,
            "value": {"uiVal": round(gpu.nvlink_bandwidth_bytes_per_s / 1e6)},
        }
        answers.nvml("nvmlDeviceGetFieldValues", index, _SPEED_FIELD, value=[speed])


def _pci_device(
    answers: Answers, machine: MachineModel, place: "Place", vendor: str, device_class: str
) -> None:
    answers.links[f"{_DEVICES}/{place.address}"] = place.path
    answers.text(f"{place.path}/vendor", vendor)
    answers.text(f"{place.path}/class", device_class)
    answers.text(f"{place.path}/numa_node", place.numa_node)
    answers.text(f"{place.path}/local_cpulist", _cpus_of(machine, place.numa_node))


def _pcie_link(answers: Answers, place: "Place", generation: int, width: int) -> None:
    """Add the rate of a PCIe link: 8 GT/s for generation 3, doubled by each later generation.

    Source: PCI Express Base Specification 6.0.
    """
    for state in ("current", "max"):
        answers.text(f"{place.path}/{state}_link_speed", f"{8.0 * 2 ** (generation - 3):.1f} GT/s PCIe")
        answers.text(f"{place.path}/{state}_link_width", width)


def _nic(answers: Answers, machine: MachineModel, index: int, place: "Place") -> None:
    is_efa = machine.nic_type == "efa"
    is_infiniband = machine.nic_link_layer == "InfiniBand"
    vendor = _VENDORS["amazon" if is_efa else "mellanox"]
    _pci_device(answers, machine, place, vendor, _CLASS_INFINIBAND if is_infiniband else _CLASS_ETHERNET)
    if machine.nic_pcie_generation is not None:
        _pcie_link(answers, place, machine.nic_pcie_generation, machine.nic_pcie_width)
    # EFA devices are named by their bus, mlx5 devices by their number.
    name = f"rdmap{int(place.address[5:7], 16)}s0" if is_efa else f"mlx5_{index}"
    folder = f"{place.path}/infiniband/{name}"
    answers.links[f"/sys/class/infiniband/{name}"] = folder
    answers.links[f"{folder}/device"] = place.path
    answers.links[f"/sys/class/infiniband/{name}/device"] = place.path
    if is_efa:
        answers.links[f"{place.path}/driver"] = "/sys/bus/pci/drivers/efa"
        answers.links[f"/sys/class/infiniband/{name}/device/driver"] = "/sys/bus/pci/drivers/efa"
    else:
        answers.text(f"{folder}/hca_type", machine.nic_type)
    port = f"{folder}/ports/1"
    answers.text(f"{port}/state", "4: ACTIVE")
    answers.text(f"{port}/phys_state", "5: LinkUp")
    speed = _INFINIBAND_SPEEDS.get(machine.nic_rate_gbps)
    answers.text(f"{port}/rate", f"{machine.nic_rate_gbps:g} Gb/sec{f' (4X {speed})' if speed else ''}")
    answers.text(f"{port}/link_layer", machine.nic_link_layer)


def _ethernet(answers: Answers, machine: MachineModel, place: "Place") -> None:
    """Add the host's own network interface, eth0 in the kernel's naming."""
    folder = f"{place.path}/net/eth0"
    answers.links["/sys/class/net/eth0"] = folder
    answers.text(f"{folder}/operstate", "up")
    if machine.ethernet_rate_gbps is not None:
        answers.text(f"{folder}/speed", round(machine.ethernet_rate_gbps * 1000))


class Place(msgspec.Struct, frozen=True):
    """A device on the bus."""

    path: str
    """Canonical path in sysfs."""
    numa_node: int

    @property
    def address(self) -> str:
        return self.path.rpartition("/")[2]


class Layout(msgspec.Struct, frozen=True):
    """The devices of a machine, each kind in the order of its index."""

    gpus: tuple[Place, ...]
    nics: tuple[Place, ...]
    ethernet: Place


class _Bus:
    """Assigns host bridges, and bus numbers from 1 on in the order in which firmware assigns them."""

    def __init__(self, machine: MachineModel) -> None:
        self._numbers = count(1)
        self._bridge_per_node = machine.gpu_link == "PHB"
        self._bridges: dict[int, str] = {}
        self._ports: dict[str, Iterator[int]] = {}

    def root_port(self, numa_node: int) -> str:
        """Return a new root port, on the only host bridge of a node or on a new host bridge."""
        bridge = self._bridges.get(numa_node) if self._bridge_per_node else None
        if bridge is None:
            bridge = f"{next(self._numbers):02x}"
            self._bridges[numa_node] = bridge
            self._ports[bridge] = count(1)
        return f"/sys/devices/pci0000:{bridge}/0000:{bridge}:{next(self._ports[bridge]):02x}.0"

    def device(self, above: str) -> str:
        """Return the path of the only device on a new bus below a port."""
        return f"{above}/0000:{next(self._numbers):02x}:00.0"

    def switch(self, above: str, ports: int) -> list[str]:
        """Return the downstream ports of a new switch: an upstream port on one bus, its ports on the next."""
        upstream, inner = self.device(above), next(self._numbers)
        return [f"{upstream}/0000:{inner:02x}:{port:02x}.0" for port in range(ports)]


def gpu_of_nic(machine: MachineModel, nic: int) -> int:
    """Return the GPU that a NIC serves: NICs are spread evenly over the GPUs, in their order."""
    return nic * machine.gpu_count // machine.nic_count


def lay_out(machine: MachineModel) -> Layout:
    """Return the places of all devices of `machine`."""
    bus = _Bus(machine)
    places: dict[tuple[str, int], Place] = {}
    for group in _groups(machine):
        numa_node = _gpu_numa_node(machine, group[0][1])
        if machine.gpus_per_switch == 0:
            ports = [bus.root_port(numa_node) for _ in group]
        else:
            ports = bus.switch(bus.root_port(numa_node), len(group))
            if machine.switch_link == "PXB":
                ports = [bus.switch(port, 1)[0] for port in ports]
        places.update(
            (member, Place(bus.device(port), numa_node)) for member, port in zip(group, ports, strict=True)
        )
    return Layout(
        gpus=tuple(places["gpu", index] for index in range(machine.gpu_count)),
        nics=tuple(places["nic", index] for index in range(machine.nic_count)),
        ethernet=Place(bus.device(bus.root_port(0)), 0),
    )


def _gpu_numa_node(machine: MachineModel, gpu: int) -> int:
    """Return the NUMA node of a GPU."""
    if machine.gpu_numa_nodes:
        return machine.gpu_numa_nodes[gpu]
    return gpu * machine.numa_nodes // machine.gpu_count


def _groups(machine: MachineModel) -> Iterator[list[tuple[str, int]]]:
    """Yield the devices that share a switch, or a GPU and its NICs without a switch; GPUs come first."""
    size = max(machine.gpus_per_switch, 1)
    for first in range(0, machine.gpu_count, size):
        gpus = range(first, min(first + size, machine.gpu_count))
        nics = (nic for nic in range(machine.nic_count) if gpu_of_nic(machine, nic) in gpus)
        yield [*(("gpu", gpu) for gpu in gpus), *(("nic", nic) for nic in nics)]
