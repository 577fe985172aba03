"""Build a `Cluster`, including bandwidth and latency of the links inside a node and between nodes.

A rate is taken from measurements if possible, else from catalogue rows or stated rates; otherwise it is None.
"""

import math

from probes.catalogue.hardware import GpuModel
from probes.facts.measurements import Measurement
from recipes.constants import constant
from recipes.machine.cluster_records import (
    Cluster,
    Device,
    Fabric,
    Figure,
    MachineDescription,
    Network,
    NodeLinks,
    PcieSlot,
    modelled,
)
from recipes.machine.measured_rates import (
    collective_fits,
    disturbances,
    image_anchors,
    measured_attention,
    measured_flops,
    measured_hop,
    measured_host_bandwidth,
    measured_loading,
    measured_memory_bandwidth,
    measured_noise_scale,
    measured_overlap,
    measured_reads,
    measured_ring,
    measured_workers,
    measured_writes,
    step_anchors,
)

_WIDER = (("fp16", "fp32"), ("tf32", "fp32"), ("mxfp8", "fp8"))
"""Precisions without a unit on some GPUs, each with the precision that these GPUs use instead."""


def build_cluster(machine: MachineDescription, measurements: tuple[Measurement, ...] = ()) -> Cluster:
    """Return the machine in the form that the predictions use, with one rank per GPU or share of the CPU."""
    device, links, ranks = machine.device, machine.links, machine.ranks_per_node
    row, spans_nodes, is_gpu = device.row, machine.nodes > 1, device.kind == "cuda"
    threads = None if is_gpu else device.cores_per_rank
    measured = measured_flops(measurements, threads)
    ring = measured_ring(measurements, ranks) or ring_bandwidth(
        links, device, measured_host_bandwidth(measurements)
    )
    return Cluster(
        title=machine.title,
        host=machine.host,
        device=device.kind,
        device_name=device.name,
        gpu=row.id if row is not None else "",
        vendor=row.vendor if row is not None else "nvidia",
        architecture=row.architecture if row is not None else "",
        fabric=links.fabric,
        domain_ranks=links.domain_ranks,
        transport=machine.network.transport,
        nodes=machine.nodes,
        ranks_per_node=ranks,
        memory_bytes_per_rank=_usable(device),
        flops_per_s=_achievable(device.rows) | measured,
        peak_flops_per_s=catalogue_peaks(device.rows) or device.peak_flops_per_s,
        memory_bandwidth_bytes_per_s=measured_memory_bandwidth(measurements, threads) or _bandwidth(device),
        attention_rates=measured_attention(measurements, threads),
        hidden_communication=measured_overlap(measurements, ranks),
        intra_bus_bandwidth_bytes_per_s=ring,
        intra_latency_s=measured_hop(measurements, ranks) or (hop_s(links) if is_gpu else None),
        collective_fits=collective_fits(measurements, ranks),
        inter_bus_bandwidth_bytes_per_s=network_bandwidth(machine.network) if spans_nodes else None,
        inter_latency_s=network_hop_s() if spans_nodes else None,
        physical_cores_per_rank=device.cores_per_rank,
        has_bf16=device.has_bf16 if is_gpu else _is_faster_in_bf16(measured),
        noise_scale_sequences=measured_noise_scale(measurements),
        data_loader_workers=measured_workers(measurements, ranks),
        reads_per_s=measured_reads(measurements),
        write_bytes_per_s=measured_writes(measurements),
        loaded_samples_per_s=measured_loading(measurements, ranks),
        anchors=step_anchors(measurements),
        image_anchors=image_anchors(measurements),
        warnings=(*machine.warnings, *disturbances(measurements)),
    )


def _usable(device: Device) -> Figure | None:
    """Return the memory that one rank may fill. On a GPU the CUDA context needs a part of the memory."""
    memory = device.memory
    if memory is None or device.kind == "cpu":
        return memory
    return Figure(
        value=memory.value * constant("cuda_usable_fraction"), basis=memory.basis, source=memory.source
    )


def _is_faster_in_bf16(flops_per_s: dict[str, Figure]) -> bool:
    return (
        "bf16" in flops_per_s
        and "fp32" in flops_per_s
        and flops_per_s["bf16"].value > flops_per_s["fp32"].value
    )


def _peaks(row: GpuModel) -> dict[str, float]:
    """Return dense peaks by precision; a GPU that has no unit for a type computes in the next wider type."""
    peaks = dict(row.peak_flops_per_s)
    for narrow, wide in _WIDER:
        if wide in peaks:
            peaks.setdefault(narrow, peaks[wide])
    return peaks


def catalogue_peaks(rows: tuple[GpuModel, ...]) -> dict[str, Figure]:
    """Return the datasheet's rate by precision: the lowest of all kinds of GPUs in the machine."""
    by_row = [(_peaks(row), row) for row in rows]
    least = {
        name: min(((peaks[name], row) for peaks, row in by_row), key=lambda pair: pair[0])
        for name in (by_row[0][0] if by_row else ())
        if all(name in peaks for peaks, _ in by_row)
    }
    return {name: modelled(value, f"catalogue: {row.id}") for name, (value, row) in least.items()}


def _achievable(rows: tuple[GpuModel, ...]) -> dict[str, Figure]:
    """Return achievable rates by precision: the best published rate, else a fraction of the peak."""
    usual = constant("achievable_flops_fraction")
    figures: dict[str, Figure] = {}
    for name in catalogue_peaks(rows):
        rates = [
            (row.achievable_flops_per_s[name], row, "best measured GEMM")
            if name in row.achievable_flops_per_s
            else (_peaks(row)[name] * usual, row, f"{usual:g} x datasheet")
            for row in rows
        ]
        value, row, how = min(rates, key=lambda rate: rate[0])
        figures[name] = modelled(value, f"catalogue: {row.id}, {how}")
    return figures


def _bandwidth(device: Device) -> Figure | None:
    """Return the datasheet's memory bandwidth: the lowest of all kinds of GPUs in the machine."""
    if not device.rows:
        return device.memory_bandwidth_bytes_per_s
    row = min(device.rows, key=lambda row: row.memory_bandwidth_bytes_per_s)
    return modelled(row.memory_bandwidth_bytes_per_s, f"catalogue: {row.id}")


PCIE_LANE_BYTES_PER_S = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes/s of a lane in one direction, by PCIe generation, after line coding (PCI-SIG base specifications)."""
_PER_HOP = "NCCL's tuner, per hop"
_ASSUMED_SLOT = PcieSlot(generation=4, width=16)
"""Slot that is assumed for a GPU if no slot is stated."""
_MEMORY_OVER_LINKS = 10
"""Approximate ratio of memory bandwidth to the bandwidth of direct links: 3350 and 450 GB/s on an H100."""


def ring_bandwidth(links: NodeLinks, device: Device, host_copies: Figure | None) -> Figure | None:
    """Return the all-reduce bus bandwidth of a ring over the ranks of one node; None if it is unknown.

    `host_copies` is the measured bandwidth between GPUs and host memory, which is an upper limit for copies
    over PCIe.
    """
    if links.assumed_bandwidth is not None or device.kind == "cpu":
        return links.assumed_bandwidth
    # Gaudi has its own Ethernet ports in addition to PCIe.
    crosses_pcie = links.fabric == "pcie" and not any(row.link_kind == "ethernet" for row in device.rows)
    return _pcie_bandwidth(links, host_copies) if crosses_pcie else _link_bandwidth(links, device)


def _link_bandwidth(links: NodeLinks, device: Device) -> Figure | None:
    if not device.rows:
        return None
    row = min(device.rows, key=lambda row: row.nvlink_count * row.nvlink_bandwidth_bytes_per_s)
    if links.is_switched and row.ring_bus_bandwidth_bytes_per_s is not None:
        part = min(1.0, links.links / row.nvlink_count) if row.nvlink_count else 1.0
        part *= links.rate_share
        return modelled(
            row.ring_bus_bandwidth_bytes_per_s * part, f"catalogue: {row.id}, measured ring all-reduce"
        )
    fraction = constant("nvlink_fraction")
    value = fraction * links.links * row.nvlink_bandwidth_bytes_per_s * links.rate_share
    return modelled(value, f"catalogue: {row.id}, {links.links} links x {fraction:g}") if value > 0 else None


def _pcie_bandwidth(links: NodeLinks, host_copies: Figure | None) -> Figure | None:
    slot = links.slot
    if slot is None or slot.generation not in PCIE_LANE_BYTES_PER_S:
        return None
    fraction = constant("pcie_fraction")
    value = fraction * slot_bytes_per_s(slot)
    if host_copies is not None and host_copies.value < value:
        return host_copies
    between_sockets = constant("socket_link_bytes_per_s")
    if links.crosses_sockets and between_sockets < value:
        return modelled(between_sockets, "link between the CPU sockets, from NCCL's own topology model")
    return modelled(value, f"PCIe {slot.generation} x{slot.width} x {fraction:g}")


def slot_bytes_per_s(slot: PcieSlot) -> float:
    """Return the line rate of a slot in one direction; 0 if its generation is unknown."""
    return PCIE_LANE_BYTES_PER_S.get(slot.generation, 0.0) * slot.width


def assumed_ring(memory_bandwidth_bytes_per_s: float, fabric: Fabric) -> Figure:
    """Return the bus bandwidth assumed for a GPU whose links are unknown."""
    if fabric == "pcie":
        value = constant("pcie_fraction") * slot_bytes_per_s(_ASSUMED_SLOT)
    else:
        value = memory_bandwidth_bytes_per_s / _MEMORY_OVER_LINKS
    return modelled(value, "assumed: the case does not describe the links")


def mesh_links(row: GpuModel, used: int, others: int) -> int:
    """Return the number of a GPU's links that lead to `used` of its `others` neighbours.

    If the links cannot be divided evenly, some pairs have one link more, and NCCL uses these pairs first.
    """
    count = row.nvlink_count
    return min(count, math.ceil(count * used / others) + (1 if count % others else 0))


def hop_s(links: NodeLinks) -> Figure:
    """Return the latency of one hop inside a node."""
    return modelled(constant("pcie_hop_s" if links.fabric == "pcie" else "nvlink_hop_s"), _PER_HOP)


def network_fraction(*, uses_tcp: bool) -> float:
    """Return the part of the network's line rate that collectives reach."""
    return constant("tcp_fraction" if uses_tcp else "rdma_fraction")


def network_bandwidth(network: Network) -> Figure | None:
    """Return the bus bandwidth between nodes, per node; None if the line rate is unknown."""
    if network.line_rate_bytes_per_s is None:
        return None
    value = network.line_rate_bytes_per_s * network_fraction(uses_tcp=network.uses_tcp)
    limit = constant("tcp_node_bytes_per_s")
    if network.uses_tcp and value > limit:
        # The processors copy each byte between the sockets and pinned memory, so more ports do not help.
        return modelled(limit, f"{network.source}; a node reaches {limit / 1e9:g} GB/s over TCP sockets")
    return modelled(value, network.source)


def network_hop_s() -> Figure:
    """Return the latency of one hop between nodes."""
    return modelled(constant("network_hop_s"), _PER_HOP)
