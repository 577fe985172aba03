"""What every check says about machines that differ from a healthy one in one thing."""

from __future__ import annotations

from typing import NamedTuple

from probes.facts import Filesystem, GpuProcess, Link, MachineFacts, NvLink, PcieLink
from probes.record import Reason, Unknown
from probes.units import GIB, KIB, MIB
from tests.support.machines import cpu_box, h100, h100_node, ndr_port, storage_port, with_gpus, with_nics, with_part


class Case(NamedTuple):
    check_id: str
    name: str
    facts: MachineFacts
    said: tuple[str, ...]
    """Status and subject of each finding."""


NOT_SUPPORTED = Unknown(Reason.NOT_SUPPORTED, "[N/A]")
TIMEOUT = Unknown(Reason.TIMEOUT, "nvmlInit took longer than 10 s")
NOT_RECORDED = Unknown(Reason.NOT_RECORDED)

NODE = h100_node()
BOX = cpu_box()
ONE = h100_node(gpus=(h100(0),), pci_gpus=("0000:19:00.0",))
UNREAD = h100_node(gpus=NOT_RECORDED, pci_gpus=NOT_RECORDED, nics=NOT_RECORDED)
IN_CONTAINER = with_part(NODE, "container", runtime="docker")

ALL = "GPU0-7"


def nvlinks(*, up: int, of: int = 18, rate: float = 26.562e9) -> tuple[NvLink, ...]:
    return tuple(NvLink(index=n, active=n < up, bandwidth_bytes_per_s=rate, remote="switch") for n in range(of))


def pcie(width: int, generation: int = 5) -> PcieLink:
    return PcieLink(generation=generation, generation_max=5, width=width, width_max=16)


def links(kind: str, gpus: range = range(8)) -> tuple[Link, ...]:
    return tuple(Link(a=f"GPU{gpu}", b=f"mlx5_{nic}", kind=kind) for gpu in gpus for nic in range(8))


def disk(used: float, **changes: object) -> MachineFacts:
    values = {"mount": "/", "kind": "ext4", "total_bytes": 1000 * GIB, "free_bytes": int(1000 * GIB * (1 - used)), **changes}
    return h100_node(storage=(Filesystem(**values),))


def running(*processes: GpuProcess, used: int = 4 * MIB) -> MachineFacts:
    return with_gpus(NODE, 5, processes=processes, memory_used_bytes=used)


GPU_CASES = (
    Case("gpu-driver", "answers", NODE, (f"PASS {ALL}",)),
    Case("gpu-driver", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-driver", "nothing known", UNREAD, ("UNKNOWN host",)),
    Case(
        "gpu-driver",
        "GPUs on the bus, no driver",
        with_part(h100_node(gpus=()), "software", driver_version=None),
        ("FAIL host",),
    ),
    Case(
        "gpu-driver",
        "GPUs on the bus, no driver to ask",
        with_part(h100_node(gpus=Unknown(Reason.TOOL_MISSING)), "software", driver_version=None),
        ("FAIL host",),
    ),
    Case("gpu-driver", "loaded and silent", h100_node(gpus=TIMEOUT), ("FAIL host",)),
    Case("gpu-driver", "loaded, tools missing", h100_node(gpus=Unknown(Reason.TOOL_MISSING)), ("UNKNOWN host",)),
    Case("gpu-driver", "unread, and none on the bus", h100_node(gpus=TIMEOUT, pci_gpus=()), ("SKIP host",)),
    Case(
        "gpu-driver",
        "one GPU lost",
        with_gpus(NODE, 2, name=Unknown(Reason.ERROR, "GPU is lost")),
        ("FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case(
        "gpu-driver",
        "library of another version",
        with_gpus(NODE, 0, 1, driver_version="550.90.07"),
        ("FAIL GPU0", "FAIL GPU1", "PASS GPU2-7"),
    ),
    Case(
        "gpu-driver",
        "version unread",
        with_part(with_gpus(NODE, driver_version=NOT_RECORDED), "software", driver_version=NOT_RECORDED),
        ("UNKNOWN host",),
    ),
    Case(
        "gpu-driver",
        "one GPU lost, its name still known",
        with_gpus(NODE, 2, memory_bytes=Unknown(Reason.ERROR, "GPU is lost")),
        ("FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case("gpu-count", "all there", NODE, ("PASS host",)),
    Case("gpu-count", "one missing", h100_node(gpus=tuple(h100(n) for n in range(7))), ("FAIL host",)),
    Case("gpu-count", "some given to the container", with_part(ONE, "container", runtime="docker"), ("PASS host",)),
    Case("gpu-count", "fewer in the container", h100_node(gpus=(h100(0),), container=IN_CONTAINER.container), ("WARN host",)),
    Case("gpu-count", "bus unread", h100_node(pci_gpus=TIMEOUT), ("UNKNOWN host",)),
    Case("gpu-count", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-count", "GPUs unread", UNREAD, ("UNKNOWN host",)),
    Case("gpu-model", "alike", NODE, (f"PASS {ALL}",)),
    Case("gpu-model", "another model", with_gpus(NODE, 6, name="NVIDIA A100-SXM4-80GB"), ("WARN GPU6", "PASS GPU0-5, GPU7")),
    Case("gpu-model", "less memory", with_gpus(NODE, 6, memory_bytes=40 * GIB), ("WARN GPU6", "PASS GPU0-5, GPU7")),
    Case("gpu-model", "another VBIOS", with_gpus(NODE, 0, vbios_version="96.00.74"), ("WARN GPU0", "PASS GPU1-7")),
    Case("gpu-model", "one GPU", ONE, ("SKIP host",)),
    Case("gpu-model", "names unread", with_gpus(NODE, name=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case("ecc-uncorrected", "none", NODE, (f"PASS {ALL}",)),
    Case("ecc-uncorrected", "three", with_gpus(NODE, 3, ecc_uncorrected_volatile=3), ("FAIL GPU3", "PASS GPU0-2, GPU4-7")),
    Case("ecc-uncorrected", "no ECC", with_gpus(NODE, ecc_uncorrected_volatile=NOT_SUPPORTED), (f"SKIP {ALL}",)),
    Case("ecc-uncorrected", "unread", with_gpus(NODE, ecc_uncorrected_volatile=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case(
        "ecc-uncorrected",
        "two reasons",
        with_gpus(with_gpus(NODE, ecc_uncorrected_volatile=TIMEOUT), 0, ecc_uncorrected_volatile=NOT_RECORDED),
        ("UNKNOWN GPU0", "UNKNOWN GPU1-7"),
    ),
    Case("row-remap", "none", NODE, (f"PASS {ALL}",)),
    Case("row-remap", "pending", with_gpus(NODE, 1, row_remap_pending=True), ("WARN GPU1", "PASS GPU0, GPU2-7")),
    Case("row-remap", "failed, rest unread", with_gpus(ONE, row_remap_failed=True, row_remap_pending=TIMEOUT), ("FAIL GPU0",)),
    Case("row-remap", "half read", with_gpus(ONE, row_remap_failed=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("row-remap", "before Ampere", with_gpus(ONE, row_remap_failed=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("pcie-link", "full", NODE, (f"PASS {ALL}",)),
    Case("pcie-link", "idle, so slow", with_gpus(NODE, pcie=pcie(16, 1)), (f"PASS {ALL}",)),
    Case(
        "pcie-link",
        "busy and slow",
        with_gpus(NODE, 4, pcie=pcie(16, 3), utilization_percent=97, throttle_reasons=()),
        ("WARN GPU4", "PASS GPU0-3, GPU5-7"),
    ),
    Case(
        "pcie-link",
        "busy, reasons unread",
        with_gpus(ONE, pcie=pcie(16, 3), utilization_percent=97, throttle_reasons=TIMEOUT),
        ("PASS GPU0",),
    ),
    Case("pcie-link", "half, others full", with_gpus(NODE, 2, pcie=pcie(8)), ("FAIL GPU2", "PASS GPU0-1, GPU3-7")),
    Case("pcie-link", "half, by the slot", with_gpus(ONE, pcie=pcie(8)), ("WARN GPU0",)),
    Case("pcie-link", "a quarter", with_gpus(ONE, pcie=pcie(4)), ("FAIL GPU0",)),
    Case("pcie-link", "unread", with_gpus(ONE, pcie=PcieLink(width=16)), ("UNKNOWN GPU0",)),
    Case("pcie-link", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-throttle", "idle", NODE, (f"PASS {ALL}",)),
    Case("gpu-throttle", "at the power limit", with_gpus(NODE, throttle_reasons=("sw_power_cap",)), (f"PASS {ALL}",)),
    Case("gpu-throttle", "hot", with_gpus(ONE, throttle_reasons=("hw_slowdown", "hw_thermal_slowdown")), ("FAIL GPU0",)),
    Case("gpu-throttle", "power brake", with_gpus(ONE, throttle_reasons=("hw_power_brake_slowdown",)), ("FAIL GPU0",)),
    Case("gpu-throttle", "warm", with_gpus(ONE, throttle_reasons=("sw_thermal_slowdown",)), ("WARN GPU0",)),
    Case("gpu-throttle", "unread", with_gpus(ONE, throttle_reasons=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-throttle", "no such value", with_gpus(ONE, throttle_reasons=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("gpu-power-limit", "default", NODE, (f"PASS {ALL}",)),
    Case("gpu-power-limit", "rounded", with_gpus(ONE, power_limit_w=699.98), ("PASS GPU0",)),
    Case("gpu-power-limit", "raised", with_gpus(ONE, power_limit_w=750.0), ("PASS GPU0",)),
    Case("gpu-power-limit", "lowered", with_gpus(NODE, 7, power_limit_w=500.0), ("WARN GPU7", "PASS GPU0-6")),
    Case("gpu-power-limit", "default unread", with_gpus(ONE, power_limit_default_w=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-power-limit", "none", with_gpus(ONE, power_limit_w=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("gpu-busy", "free", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-busy",
        "training",
        running(GpuProcess(pid=7, name="/usr/bin/python3", memory_bytes=60 * GIB)),
        ("WARN GPU5", "PASS GPU0-4, GPU6-7"),
    ),
    Case("gpu-busy", "nameless", running(GpuProcess(pid=7, name=TIMEOUT)), ("WARN GPU5", "PASS GPU0-4, GPU6-7")),
    Case("gpu-busy", "invisible user", running(used=30 * GIB), ("WARN GPU5", "PASS GPU0-4, GPU6-7")),
    Case("gpu-busy", "memory alone says little", with_gpus(ONE, processes=NOT_RECORDED), ("UNKNOWN GPU0",)),
    Case("gpu-busy", "memory alone says much", with_gpus(ONE, processes=NOT_RECORDED, memory_used_bytes=9 * GIB), ("WARN GPU0",)),
    Case("gpu-busy", "not supported", with_gpus(ONE, processes=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("mig-mode", "off", NODE, (f"PASS {ALL}",)),
    Case("mig-mode", "on", with_gpus(ONE, mig_enabled=True), ("WARN GPU0",)),
    Case("mig-mode", "no MIG", with_gpus(ONE, mig_enabled=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("mig-mode", "unread", with_gpus(ONE, mig_enabled=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("compute-mode", "default", NODE, (f"PASS {ALL}",)),
    Case("compute-mode", "exclusive", with_gpus(ONE, compute_mode="exclusive process"), ("WARN GPU0",)),
    Case("compute-mode", "prohibited", with_gpus(ONE, compute_mode="prohibited"), ("FAIL GPU0",)),
    Case("compute-mode", "unread", with_gpus(ONE, compute_mode=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("compute-mode", "no GPU", BOX, ("SKIP host",)),
    Case("persistence-mode", "on", NODE, (f"PASS {ALL}",)),
    Case("persistence-mode", "off", with_gpus(ONE, persistence_mode=False), ("WARN GPU0",)),
    Case("persistence-mode", "unread", with_gpus(ONE, persistence_mode=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("persistence-mode", "Windows", with_gpus(ONE, persistence_mode=NOT_SUPPORTED), ("SKIP GPU0",)),
)

BRIDGED = with_gpus(NODE, 0, 1, name="NVIDIA A100 80GB PCIe", nvlinks=nvlinks(up=0, of=12))
STRANGER = with_gpus(NODE, name="NVIDIA H999", nvlinks=nvlinks(up=10, of=18))
NO_FABRIC = with_gpus(NODE, fabric_state="not supported")


def manager(state: object, facts: MachineFacts = NODE) -> MachineFacts:
    return with_part(facts, "software", fabric_manager=state)


FABRIC_CASES = (
    Case("nvlink-fabric", "joined", NODE, (f"PASS {ALL}",)),
    Case("nvlink-fabric", "not started", with_gpus(NODE, fabric_state="not started"), tuple(f"FAIL GPU{n}" for n in range(8))),
    Case("nvlink-fabric", "in progress", with_gpus(ONE, fabric_state="in progress"), ("FAIL GPU0",)),
    Case("nvlink-fabric", "no fabric", NO_FABRIC, (f"SKIP {ALL}",)),
    Case("nvlink-fabric", "unread", with_gpus(ONE, fabric_state=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("fabric-manager", "active", NODE, ("PASS host",)),
    Case("fabric-manager", "stopped, nothing set up", manager("inactive", NO_FABRIC), ("FAIL host",)),
    Case("fabric-manager", "missing, nothing set up", manager(None, NO_FABRIC), ("FAIL host",)),
    Case("fabric-manager", "stopped after the set-up", manager("failed"), ("WARN host",)),
    Case("fabric-manager", "in the rack", manager(None), ("PASS host",)),
    Case("fabric-manager", "outside the container", manager(None, IN_CONTAINER), ("UNKNOWN host",)),
    Case(
        "fabric-manager",
        "outside the virtual machine",
        manager("inactive", with_part(NODE, "container", virtualization="kvm")),
        ("UNKNOWN host",),
    ),
    Case("fabric-manager", "unread", manager(TIMEOUT), ("UNKNOWN host",)),
    Case("fabric-manager", "no switch", with_gpus(NO_FABRIC, nvlinks=()), ("SKIP host",)),
    Case("nvlink-active", "all up", NODE, (f"PASS {ALL}",)),
    Case("nvlink-active", "one down", with_gpus(NODE, 3, nvlinks=nvlinks(up=17)), ("FAIL GPU3", "PASS GPU0-2, GPU4-7")),
    Case(
        "nvlink-active",
        "the dead link is not even listed",
        with_gpus(NODE, 3, nvlinks=nvlinks(up=17, of=17)),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case("nvlink-active", "all down", with_gpus(NODE, 3, nvlinks=nvlinks(up=0)), ("FAIL GPU3", "PASS GPU0-2, GPU4-7")),
    Case(
        "nvlink-active",
        "all GPUs lost the same link",
        with_gpus(NODE, nvlinks=nvlinks(up=17)),
        tuple(f"FAIL GPU{n}" for n in range(8)),
    ),
    Case(
        "nvlink-active",
        "A800 has eight by design",
        with_gpus(NODE, name="NVIDIA A800-SXM4-80GB", nvlinks=nvlinks(up=8, of=12)),
        (f"PASS {ALL}",),
    ),
    Case("nvlink-active", "no bridge fitted", BRIDGED, ("SKIP GPU0-1", "PASS GPU2-7")),
    Case(
        "nvlink-active",
        "a bridge half dead",
        with_gpus(BRIDGED, 0, nvlinks=nvlinks(up=8, of=12)),
        ("FAIL GPU0", "SKIP GPU1", "PASS GPU2-7"),
    ),
    Case("nvlink-active", "not in the catalogue, alike", STRANGER, (f"PASS {ALL}",)),
    Case(
        "nvlink-active",
        "not in the catalogue, one differs",
        with_gpus(STRANGER, 2, nvlinks=nvlinks(up=9)),
        ("FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case("nvlink-active", "not in the catalogue, alone", with_gpus(ONE, name="NVIDIA H999"), ("UNKNOWN GPU0",)),
    Case("nvlink-active", "not in the catalogue, none up", with_gpus(STRANGER, nvlinks=nvlinks(up=0)), (f"SKIP {ALL}",)),
    Case("nvlink-active", "one of a board, alone", with_gpus(ONE, nvlinks=nvlinks(up=0)), ("SKIP GPU0",)),
    Case(
        "nvlink-active",
        "a link unread",
        with_gpus(NODE, 0, nvlinks=(*nvlinks(up=17, of=17), NvLink(index=17, active=TIMEOUT))),
        ("UNKNOWN GPU0", "PASS GPU1-7"),
    ),
    Case("nvlink-active", "unread", with_gpus(NODE, nvlinks=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case("nvlink-active", "MIG", with_gpus(NODE, nvlinks=NOT_SUPPORTED), (f"SKIP {ALL}",)),
    Case("nvlink-speed", "full", NODE, (f"PASS {ALL}",)),
    Case("nvlink-speed", "one slow", with_gpus(NODE, 1, nvlinks=nvlinks(up=18, rate=12.5e9)), ("FAIL GPU1", "PASS GPU0, GPU2-7")),
    Case("nvlink-speed", "rate unread", with_gpus(ONE, nvlinks=(NvLink(index=0, active=True),)), ("UNKNOWN GPU0",)),
    Case("nvlink-speed", "not in the catalogue", STRANGER, (f"SKIP {ALL}",)),
    Case("nvlink-speed", "none up", with_gpus(ONE, nvlinks=nvlinks(up=0)), ("SKIP GPU0",)),
)

ROCE = h100_node(
    links=NOT_RECORDED,
    nics=(*(ndr_port(n, link_layer="Ethernet") for n in range(8)), *(storage_port(n) for n in range(8, 12))),
)
DOWN = {"state": "DOWN", "physical_state": "Polling", "rate_gbps": 10.0}
OFF = {"state": "DOWN", "physical_state": "Disabled", "rate_gbps": 40.0}


def without_gdr(facts: MachineFacts = NODE) -> MachineFacts:
    return with_part(facts, "software", driver_open_module=False, peermem_loaded=False)


NETWORK_CASES = (
    Case("nic-state", "up", NODE, ("PASS mlx5_0-8",)),
    Case("nic-state", "a rail down", with_nics(NODE, "mlx5_5", **DOWN), ("FAIL mlx5_5", "PASS mlx5_0-4, mlx5_6-8")),
    Case("nic-state", "storage down", with_nics(NODE, "mlx5_8", **DOWN), ("WARN mlx5_8", "PASS mlx5_0-7")),
    Case("nic-state", "no subnet manager", with_nics(NODE, state="INIT"), tuple(f"FAIL mlx5_{n}" for n in range(9))),
    Case(
        "nic-state",
        "a rail switched off, distances unread",
        with_nics(ROCE, "mlx5_5", **OFF),
        ("FAIL mlx5_5", "PASS mlx5_0-4, mlx5_6-11"),
    ),
    Case(
        "nic-state",
        "storage off, distances unread",
        with_nics(ROCE, "mlx5_9", **OFF),
        ("WARN mlx5_9", "PASS mlx5_0-8, mlx5_10-11"),
    ),
    Case("nic-state", "nothing cabled, no GPU", cpu_box(nics=(ndr_port(0, **DOWN),)), ("WARN mlx5_0",)),
    Case("nic-state", "all switched off", h100_node(nics=(ndr_port(0, **OFF),)), ("WARN mlx5_0",)),
    Case("nic-state", "all without a partner", h100_node(nics=(ndr_port(0, **DOWN),)), ("FAIL mlx5_0",)),
    Case(
        "nic-state",
        "second port of a card",
        cpu_box(nics=(ndr_port(0), ndr_port(0, port=2, **DOWN))),
        ("WARN mlx5_0:2", "PASS mlx5_0"),
    ),
    Case("nic-state", "one unread", with_nics(NODE, "mlx5_0", state=TIMEOUT), ("UNKNOWN mlx5_0", "PASS mlx5_1-8")),
    Case("nic-state", "unread", UNREAD, ("UNKNOWN host",)),
    Case("nic-state", "no port", BOX, ("SKIP host",)),
    Case("nic-rate", "equal", NODE, ("PASS mlx5_0-7",)),
    Case("nic-rate", "one rail slower", with_nics(NODE, "mlx5_3", rate_gbps=200.0), ("FAIL mlx5_3", "PASS mlx5_0-2, mlx5_4-7")),
    Case(
        "nic-rate",
        "one slower, distances unread",
        with_nics(ROCE, "mlx5_3", rate_gbps=200.0),
        ("WARN mlx5_3", "PASS mlx5_0-2, mlx5_4-7"),
    ),
    Case("nic-rate", "rates unread", with_nics(NODE, rate_gbps=TIMEOUT), ("UNKNOWN mlx5_0-7",)),
    Case("nic-rate", "none up", with_nics(NODE, **DOWN), ("SKIP host",)),
    Case("gpu-nic-affinity", "near", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-nic-affinity",
        "two GPUs far",
        h100_node(links=(*links("PIX", range(6)), *links("SYS", range(6, 8)))),
        ("WARN GPU6", "WARN GPU7", "PASS GPU0-5"),
    ),
    Case("gpu-nic-affinity", "all far", h100_node(links=links("SYS")), ("WARN host",)),
    Case(
        "gpu-nic-affinity",
        "all far on Grace",
        with_part(h100_node(links=links("SYS")), "cpu", architecture="aarch64"),
        ("SKIP host",),
    ),
    Case(
        "gpu-nic-affinity", "a rail for each, none near", h100_node(links=links("NODE")), tuple(f"WARN GPU{n}" for n in range(8))
    ),
    Case(
        "gpu-nic-affinity",
        "none near on Grace",
        with_part(h100_node(links=links("NODE")), "cpu", architecture="aarch64"),
        ("SKIP host",),
    ),
    Case("gpu-nic-affinity", "one rail for all", h100_node(links=links("NODE"), nics=(ndr_port(0),)), (f"PASS {ALL}",)),
    Case("gpu-nic-affinity", "unread", h100_node(links=TIMEOUT), ("UNKNOWN host",)),
    Case("gpu-nic-affinity", "half read", h100_node(links=links("PIX", range(7))), ("UNKNOWN GPU7", "PASS GPU0-6")),
    Case("gpu-nic-affinity", "no port", h100_node(nics=()), ("SKIP host",)),
    Case("peermem", "dma-buf", NODE, ("PASS host",)),
    Case("peermem", "nvidia_peermem", with_part(without_gdr(), "software", peermem_loaded=True), ("PASS host",)),
    Case("peermem", "neither", without_gdr(), ("WARN host",)),
    Case("peermem", "old kernel", with_part(NODE, "software", kernel="5.4.0-150-generic"), ("WARN host",)),
    Case("peermem", "half read", with_part(NODE, "software", driver_open_module=NOT_RECORDED), ("UNKNOWN host",)),
    Case("peermem", "kernel unreadable", with_part(NODE, "software", kernel="tiny"), ("UNKNOWN host",)),
    Case("peermem", "EFA", with_nics(without_gdr(), device_type="EFA"), ("SKIP host",)),
    Case("peermem", "GeForce", with_gpus(without_gdr(), name="NVIDIA GeForce RTX 4090"), ("SKIP host",)),
)

UNLIMITED_STACK = with_part(NODE, "limits", stack_bytes="unlimited")

HOST_CASES = (
    Case("memlock", "unlimited", NODE, ("PASS host",)),
    Case("memlock", "64 GiB", with_part(NODE, "limits", memlock_bytes=64 * GIB), ("PASS host",)),
    Case("memlock", "20 GiB", with_part(NODE, "limits", memlock_bytes=20 * GIB), ("WARN host",)),
    Case("memlock", "64 KiB", with_part(NODE, "limits", memlock_bytes=64 * KIB), ("FAIL host",)),
    Case("memlock", "64 KiB without RDMA", with_part(BOX, "limits", memlock_bytes=64 * KIB), ("SKIP host",)),
    Case("memlock", "unread", with_part(NODE, "limits", memlock_bytes=NOT_RECORDED), ("UNKNOWN host",)),
    Case("shm-size", "large", NODE, ("PASS host",)),
    Case("shm-size", "docker's default", with_part(IN_CONTAINER, "limits", shm_bytes=64 * MIB), ("FAIL host",)),
    Case("shm-size", "4 GiB", with_part(NODE, "limits", shm_bytes=4 * GIB), ("WARN host",)),
    Case("shm-size", "4 GiB without GPU", with_part(BOX, "limits", shm_bytes=4 * GIB, shm_free_bytes=4 * GIB), ("PASS host",)),
    Case("shm-size", "64 MiB without GPU", with_part(BOX, "limits", shm_bytes=64 * MIB), ("WARN host",)),
    Case("shm-size", "full", with_part(NODE, "limits", shm_free_bytes=3 * MIB), ("WARN host",)),
    Case("shm-size", "unread", with_part(NODE, "limits", shm_bytes=TIMEOUT), ("UNKNOWN host",)),
    Case("nofile", "enough", NODE, ("PASS host",)),
    Case("nofile", "unlimited", with_part(NODE, "limits", nofile="unlimited"), ("PASS host",)),
    Case("nofile", "a shell's default", with_part(BOX, "limits", nofile=1024), ("WARN host",)),
    Case("nofile", "unread", with_part(BOX, "limits", nofile=TIMEOUT), ("UNKNOWN host",)),
    Case("stack-limit", "limited", NODE, ("PASS host",)),
    Case("stack-limit", "unlimited, old NCCL", UNLIMITED_STACK, ("WARN host",)),
    Case("stack-limit", "unlimited, new NCCL", with_part(UNLIMITED_STACK, "training", nccl_version="2.28.3"), ("PASS host",)),
    Case("stack-limit", "unlimited, no NCCL", with_part(UNLIMITED_STACK, "training", nccl_version=None), ("SKIP host",)),
    Case(
        "stack-limit", "unlimited, NCCL unread", with_part(UNLIMITED_STACK, "training", nccl_version=TIMEOUT), ("UNKNOWN host",)
    ),
    Case("stack-limit", "unread", with_part(NODE, "limits", stack_bytes=TIMEOUT), ("UNKNOWN host",)),
    Case("stack-limit", "no GPU", BOX, ("SKIP host",)),
    Case("cpu-affinity", "all", NODE, ("PASS host",)),
    Case("cpu-affinity", "four", with_part(NODE, "cpu", allowed_cpus=4), ("WARN host",)),
    Case("cpu-affinity", "mask unread", with_part(NODE, "cpu", allowed_cpus=NOT_RECORDED), ("UNKNOWN host",)),
    Case("cpu-affinity", "count unread", with_part(NODE, "cpu", logical_cpus=NOT_RECORDED), ("UNKNOWN host",)),
    Case("cpu-governor", "performance", NODE, ("PASS host",)),
    Case("cpu-governor", "powersave", with_part(NODE, "cpu", governor="powersave"), ("WARN host",)),
    Case("cpu-governor", "none", with_part(NODE, "cpu", governor=Unknown(Reason.TOOL_MISSING)), ("SKIP host",)),
    Case("cpu-governor", "unread", with_part(NODE, "cpu", governor=TIMEOUT), ("UNKNOWN host",)),
    Case("numa", "stated", NODE, (f"PASS {ALL}", "PASS mlx5_0-7")),
    Case("numa", "GPU without", with_gpus(NODE, 3, numa_node=None), ("WARN GPU3", "PASS GPU0-2, GPU4-7", "PASS mlx5_0-7")),
    Case(
        "numa",
        "rail without",
        with_nics(NODE, "mlx5_2", numa_node=None),
        (f"PASS {ALL}", "WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-7"),
    ),
    Case("numa", "one node", with_gpus(h100_node(numa_nodes=BOX.numa_nodes), numa_node=None), ("SKIP host",)),
    Case("numa", "unread", with_gpus(NODE, numa_node=TIMEOUT), (f"UNKNOWN {ALL}", "PASS mlx5_0-7")),
    Case("numa", "nodes unread", with_part(h100_node(numa_nodes=TIMEOUT), "cpu", sockets=TIMEOUT), ("UNKNOWN host",)),
    Case("disk-space", "room", NODE, ("PASS /, /raid",)),
    Case("disk-space", "nearly full", disk(0.92), ("WARN /",)),
    Case("disk-space", "full", disk(0.97), ("FAIL /",)),
    Case("disk-space", "an image", disk(1.0, mount="/snap/core", kind="squashfs"), ("SKIP host",)),
    Case("disk-space", "size zero", disk(0.0, total_bytes=0, free_bytes=0), ("PASS /",)),
    Case("disk-space", "size unread", disk(0.0, total_bytes=TIMEOUT), ("UNKNOWN /",)),
    Case("disk-space", "unread", h100_node(storage=TIMEOUT), ("UNKNOWN host",)),
)


def torch(**changes: object) -> MachineFacts:
    return with_part(NODE, "training", **changes)


OLD_DRIVER = with_part(torch(torch_cuda_version="12.8"), "software", driver_version="470.82.01", cuda_driver_version="11.4")

SOFTWARE_CASES = (
    Case("torch-cuda", "suits", NODE, ("PASS host",)),
    Case("torch-cuda", "CPU build without GPU", BOX, ("PASS host",)),
    Case("torch-cuda", "CPU build with GPUs", torch(torch_cuda_version=None), ("FAIL host",)),
    Case("torch-cuda", "no interpreter", torch(path=None, torch_version=NOT_RECORDED), ("WARN host",)),
    Case("torch-cuda", "no torch", torch(torch_version=None), ("WARN host",)),
    Case("torch-cuda", "driver too old", OLD_DRIVER, ("FAIL host",)),
    Case("torch-cuda", "compatibility package", with_part(OLD_DRIVER, "software", cuda_driver_version="12.8"), ("PASS host",)),
    Case("torch-cuda", "CUDA from the future", torch(torch_cuda_version="19.0"), ("UNKNOWN host",)),
    Case("torch-cuda", "CUDA unread", torch(torch_cuda_version=TIMEOUT), ("UNKNOWN host",)),
    Case("torch-cuda", "driver unread", with_part(NODE, "software", driver_version=TIMEOUT), ("UNKNOWN host",)),
    Case("torch-cuda", "driver unreadable", with_part(NODE, "software", driver_version="?"), ("UNKNOWN host",)),
    Case("torch-cuda", "torch unread", torch(torch_version=TIMEOUT), ("UNKNOWN host",)),
    Case("torch-cuda", "GPUs unread", UNREAD, ("UNKNOWN host",)),
    Case("torch-architecture", "knows Hopper", NODE, (f"PASS {ALL}",)),
    Case("torch-architecture", "Blackwell, CUDA 12.4", with_gpus(ONE, compute_capability="10.0"), ("FAIL GPU0",)),
    Case("torch-architecture", "Volta, CUDA 12.4", with_gpus(ONE, compute_capability="7.0"), ("PASS GPU0",)),
    Case(
        "torch-architecture",
        "Volta, CUDA 13",
        with_gpus(torch(torch_cuda_version="13.0"), 0, compute_capability="7.0"),
        ("FAIL GPU0", "PASS GPU1-7"),
    ),
    Case(
        "torch-architecture",
        "Turing, CUDA 13",
        with_gpus(torch(torch_cuda_version="13.0"), 0, compute_capability="7.5"),
        (f"PASS {ALL}",),
    ),
    Case("torch-architecture", "no such row", with_gpus(ONE, compute_capability="42.0"), ("UNKNOWN GPU0",)),
    Case("torch-architecture", "capability unread", with_gpus(ONE, compute_capability=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("torch-architecture", "CUDA unread", torch(torch_cuda_version=TIMEOUT), ("UNKNOWN host",)),
    Case("torch-architecture", "CUDA unreadable", torch(torch_cuda_version="none"), (f"UNKNOWN {ALL}",)),
    Case("torch-architecture", "no torch", torch(path=None, torch_cuda_version=NOT_RECORDED), ("SKIP host",)),
    Case("torch-architecture", "CPU build", torch(torch_cuda_version=None), ("SKIP host",)),
)

CASES = (*GPU_CASES, *FABRIC_CASES, *NETWORK_CASES, *HOST_CASES, *SOFTWARE_CASES)
