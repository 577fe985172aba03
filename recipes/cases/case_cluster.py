"""The machine of a case: the catalogue's row of its GPU, and links by what the case says or such a GPU
usually has.
"""

from __future__ import annotations

import functools
import math
import re
from typing import NamedTuple

import msgspec

from probes.catalogue.hardware import Catalogue, GpuModel, load_catalogue
from recipes.cases.case import Case, CaseError
from recipes.cases.case_links import domain_of, fabric_of, inter_bandwidth_of, transport_of
from recipes.cases.gpu_names import Design, gpu_named
from recipes.constants import constant
from recipes.machine.links import PCIE_LANE_BYTES_PER_S
from recipes.planning.plan import Cluster, Fabric, Figure

_PCIE_GENERATION = re.compile(r"pci[^0-9,;]{0,12}([3-6])\b", re.IGNORECASE)
_BRIDGED = 2
"""Cards that one NVLink bridge joins."""
_BOARD_WITHOUT_SWITCH = 4
"""SXM modules of a board whose NVLinks lead from each to each."""
_SAME = 1.15
"""Sizes of memory as close as this are one size in other units, or less what the driver keeps."""


_LEAST_PORT_GBPS = 100.0
"""Of a machine that nobody described."""
USUAL_NETWORK = "usual network"
"""What the source of a network's rate begins with where the case does not state it."""
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4")


class _Machine(NamedTuple):
    """All that a case says of its machine."""

    gpu: str
    memory_gb: float | None
    gpus: int
    per_node: int | None
    intra: str
    inter: str
    peak_tflops: float | None
    bandwidth_gb_per_s: float | None


def cluster_of_case(case: Case, gpus: int, catalogue: Catalogue) -> Cluster:
    """The machine with `gpus` GPUs; rates are datasheet peaks, links what a ring over them reaches.

    A GPU without a row is described by `gpu_peak_tflops`, `gpu_memory_bandwidth_gb_per_s` and `gpu_mem_gb`.
    Raises CaseError where those are missing too.
    """
    machine = _Machine(
        case.gpu,
        case.gpu_mem_gb,
        gpus,
        case.gpus_per_node,
        case.interconnect_intra,
        case.interconnect_inter,
        case.gpu_peak_tflops,
        case.gpu_memory_bandwidth_gb_per_s,
    )
    return _cluster(machine, catalogue)


@functools.lru_cache(maxsize=2048)
def _cluster(machine: _Machine, catalogue: Catalogue) -> Cluster:
    if not machine.gpu.strip():
        raise CaseError("gpu is blank: give the GPU's name, as `H100-SXM-80GB`")
    found = gpu_named(machine.gpu, machine.memory_gb, catalogue)
    if found is None:
        return _described(machine)
    row, design = found
    per_node = min(machine.gpus, machine.per_node or design.gpus_per_node)
    fabric = _fabric(machine, row, design, per_node)
    source = f"catalogue: {row.id}"
    cluster = Cluster(
        title=f"{machine.gpus} x {row.title}",
        device="cuda",
        device_name=row.title,
        gpu=row.id,
        architecture=row.architecture,
        fabric=fabric,
        nodes=-(-machine.gpus // per_node),
        ranks_per_node=per_node,
        memory_bytes_per_rank=_figure(_memory_bytes(machine, row) * constant("cuda_usable_fraction"), source),
        flops_per_s={name: _figure(value, source) for name, value in row.achievable_flops_per_s.items()},
        peak_flops_per_s={name: _figure(value, source) for name, value in _peaks(row).items()},
        memory_bandwidth_bytes_per_s=_figure(row.memory_bandwidth_bytes_per_s, source),
        intra_bus_bandwidth_bytes_per_s=_intra(machine, row, design, fabric, per_node),
        has_bf16="bf16" in row.peak_flops_per_s,
    )
    return _networked(cluster, machine, design)


def _figure(value: float, source: str) -> Figure:
    return Figure(value=value, basis="modelled", source=source)


def _peaks(row: GpuModel) -> dict[str, float]:
    """Dense peaks by precision. Where a GPU has no unit for a type, it computes in the next wider one."""
    peaks = dict(row.peak_flops_per_s)
    peaks.setdefault("fp16", peaks["fp32"])
    peaks.setdefault("tf32", peaks["fp32"])
    if "fp8" in peaks:
        peaks.setdefault("mxfp8", peaks["fp8"])
    return peaks


def _memory_bytes(machine: _Machine, row: GpuModel) -> float:
    """The row's, unless the case states another size; some tables count both dies of a module."""
    stated = (machine.memory_gb or 0.0) * 1024**3
    if not stated or 1 / _SAME < stated / row.memory_bytes < _SAME or " one of " in row.title:
        return float(row.memory_bytes)
    return stated


def _fabric(machine: _Machine, row: GpuModel, design: Design, per_node: int) -> Fabric:
    if not row.nvlink_count:
        return "pcie"
    stated = fabric_of(machine.intra)
    joined = not row.nvlink_bridge
    if stated == "nvswitch":
        return stated
    if stated in ("nvlink", "xgmi") and not joined:
        # A bridge joins two cards; a ring over more of them still crosses PCIe.
        return (
            stated
            if per_node <= _BRIDGED or (per_node <= _BOARD_WITHOUT_SWITCH and "4-way" in machine.intra)
            else "pcie"
        )
    if (
        design.fabric == "nvswitch"
        and machine.per_node == _BOARD_WITHOUT_SWITCH
        and design.domain_gpus is None
    ):
        return "nvlink"
    return design.fabric


def _intra(machine: _Machine, row: GpuModel, design: Design, fabric: Fabric, per_node: int) -> Figure:
    """Bus bandwidth of a ring over the GPUs of a node."""
    if fabric == "pcie" and row.link_kind != "ethernet":
        stated = _PCIE_GENERATION.search(machine.intra)
        generation = min(row.pcie_generation, int(stated[1])) if stated else row.pcie_generation
        value = constant("pcie_fraction") * PCIE_LANE_BYTES_PER_S[generation] * row.pcie_width
        return _figure(value, f"PCIe {generation} x{row.pcie_width} x {constant('pcie_fraction'):g}")
    if fabric == "nvswitch" and row.ring_bus_bandwidth_bytes_per_s is not None:
        return _figure(row.ring_bus_bandwidth_bytes_per_s, f"catalogue: {row.id}, measured ring all-reduce")
    links = row.nvlink_count
    if fabric != "nvswitch" and per_node > 1 and not row.nvlink_bridge:
        # Links lead from each GPU to each other; with some of the GPUs idle, those to them are idle too.
        others = max(per_node, machine.per_node or design.gpus_per_node) - 1
        links = _links_between(row.nvlink_count, per_node - 1, others)
    value = constant("nvlink_fraction") * links * row.nvlink_bandwidth_bytes_per_s
    return _figure(value, f"catalogue: {row.id}, {links} links x {constant('nvlink_fraction'):g}")


def _links_between(count: int, used: int, others: int) -> int:
    """Links of a GPU to `used` of `others`. Where they do not divide, some pairs have one more, and NCCL
    takes those first.
    """
    return min(count, math.ceil(count * used / others) + (1 if count % others else 0))


def _networked(cluster: Cluster, machine: _Machine, design: Design | None) -> Cluster:
    """The cluster with what is between its GPUs and its nodes, stated or usual."""
    per_node = machine.per_node or (design.gpus_per_node if design else cluster.ranks_per_node)
    transport = transport_of(machine.inter)
    ports = _ports(cluster, design)
    line_rate, words = inter_bandwidth_of(machine.inter, per_node, ports), "network, stated"
    if line_rate is None:
        usual = design.network_gbps * ports / design.network_ports if design else _LEAST_PORT_GBPS
        words = f"{USUAL_NETWORK}, {design.title if design else 'one port'}"
        if design and transport == "ethernet" != design.transport:
            # Ethernet that nobody calls RDMA is not the compute network that such a machine is built with.
            usual, words = min(usual, _LEAST_PORT_GBPS), f"{USUAL_NETWORK}, one port of Ethernet"
        line_rate = usual / 8 * 1e9
    if transport == "unknown" and design:
        transport = design.transport
    if design and cluster.ranks_per_node < design.gpus_per_node:
        line_rate = min(line_rate, cluster.ranks_per_node * _rate_of_a_gpu(cluster, design))
    fraction = constant("tcp_fraction" if transport == "ethernet" else "rdma_fraction")
    hop = constant("pcie_hop_s" if cluster.fabric == "pcie" else "nvlink_hop_s")
    return msgspec.structs.replace(
        cluster,
        transport=transport,
        domain_ranks=domain_of(machine.intra) or (design.domain_gpus if design else None),
        intra_latency_s=_figure(hop, "NCCL's tuner, per hop"),
        inter_bus_bandwidth_bytes_per_s=_figure(
            line_rate * fraction, f"{words}: {line_rate * 8 / 1e9:g} Gb/s"
        ),
        inter_latency_s=_figure(constant("network_hop_s"), "NCCL's tuner, per hop"),
    )


def _ports(cluster: Cluster, design: Design | None) -> int:
    """Ports of a node that has as many GPUs as the cluster's: their share of those of the usual machine."""
    if design is None:
        return 1
    return min(
        design.network_ports,
        max(1, round(design.network_ports * cluster.ranks_per_node / design.gpus_per_node)),
    )


def _rate_of_a_gpu(cluster: Cluster, design: Design) -> float:
    """Bytes/s that a GPU's share of the usual ports, or else its slot, carries to other nodes however many
    ports there are.
    """
    row = load_catalogue().gpu(cluster.gpu)
    slot = PCIE_LANE_BYTES_PER_S[row.pcie_generation] * row.pcie_width if row and row.pcie_width else 0.0
    return max(slot, design.network_gbps / design.gpus_per_node / 8 * 1e9)


def _described(machine: _Machine) -> Cluster:
    """A GPU that only the case describes."""
    peak, bandwidth, memory = machine.peak_tflops, machine.bandwidth_gb_per_s, machine.memory_gb
    if not (peak and bandwidth and memory):
        columns = {"gpu_peak_tflops": peak, "gpu_memory_bandwidth_gb_per_s": bandwidth, "gpu_mem_gb": memory}
        missing = ", ".join(name for name, value in columns.items() if not value)
        raise CaseError(f"gpu {machine.gpu[:60]!r} is not in the catalogue: give {missing}")
    per_node = min(machine.gpus, machine.per_node or 8)
    fabric = fabric_of(machine.intra) or "pcie"
    # Direct links carry about a tenth of what memory does (450 of 3350 GB/s on an H100).
    ring = 1e8 * bandwidth if fabric != "pcie" else constant("pcie_fraction") * PCIE_LANE_BYTES_PER_S[4] * 16
    rate = _figure(peak * 1e12, "gpu_peak_tflops of the case")
    cluster = Cluster(
        title=f"{machine.gpus} x {machine.gpu[:60]}",
        device="cuda",
        device_name=machine.gpu[:60],
        fabric=fabric,
        nodes=-(-machine.gpus // per_node),
        ranks_per_node=per_node,
        memory_bytes_per_rank=_figure(
            memory * 1024**3 * constant("cuda_usable_fraction"), "gpu_mem_gb of the case"
        ),
        peak_flops_per_s=dict.fromkeys(_PRECISIONS, rate),
        memory_bandwidth_bytes_per_s=_figure(bandwidth * 1e9, "gpu_memory_bandwidth_gb_per_s of the case"),
        intra_bus_bandwidth_bytes_per_s=_figure(ring, "assumed: the case does not describe the links"),
        has_bf16=True,
    )
    return _networked(cluster, machine, None)
