"""The one builder of a `Cluster`: measured rates first, then catalogue rows or stated rates, else nothing."""

from __future__ import annotations

from probes.catalogue.hardware import GpuModel
from probes.facts.measurements import Measurement
from recipes.constants import constant
from recipes.machine.cluster_records import Cluster, Device, Figure, MachineDescription, modelled
from recipes.machine.links import hop_s, network_bandwidth, network_hop_s, ring_bandwidth
from recipes.machine.measured_rates import (
    collective_fits,
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
    step_anchors,
)

_WIDER = (("fp16", "fp32"), ("tf32", "fp32"), ("mxfp8", "fp8"))
"""Precisions that some GPUs have no unit for, each with the one that they compute it in."""


def build_cluster(machine: MachineDescription, measurements: tuple[Measurement, ...] = ()) -> Cluster:
    """Return the machine as the models see it, one rank per GPU or per share of the CPU."""
    device, links, ranks = machine.device, machine.links, machine.ranks_per_node
    row, spans_nodes, is_gpu = device.row, machine.nodes > 1, device.kind == "cuda"
    threads = None if is_gpu else device.cores_per_rank
    measured = measured_flops(measurements, threads)
    ring = measured_ring(measurements, ranks) or ring_bandwidth(
        links, device, measured_host_bandwidth(measurements)
    )
    return Cluster(
        title=machine.title,
        device=device.kind,
        device_name=device.name,
        gpu=row.id if row is not None else "",
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
        loaded_samples_per_s=measured_loading(measurements, ranks),
        anchors=step_anchors(measurements),
        image_anchors=image_anchors(measurements),
        warnings=machine.warnings,
    )


def _usable(device: Device) -> Figure | None:
    """Return the memory that one rank may fill: on a GPU the CUDA context takes a part."""
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
    """Return dense peaks by precision; without a unit for a type, a GPU computes in the next wider one."""
    peaks = dict(row.peak_flops_per_s)
    for narrow, wide in _WIDER:
        if wide in peaks:
            peaks.setdefault(narrow, peaks[wide])
    return peaks


def catalogue_peaks(rows: tuple[GpuModel, ...]) -> dict[str, Figure]:
    """Return the datasheet's rate by precision, the least of all kinds of GPUs."""
    by_row = [(_peaks(row), row) for row in rows]
    least = {
        name: min(((peaks[name], row) for peaks, row in by_row), key=lambda pair: pair[0])
        for name in (by_row[0][0] if by_row else ())
        if all(name in peaks for peaks, _ in by_row)
    }
    return {name: modelled(value, f"catalogue: {row.id}") for name, (value, row) in least.items()}


def _achievable(rows: tuple[GpuModel, ...]) -> dict[str, Figure]:
    """Return achievable rates by precision: the best published one, else a fraction of the peak."""
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
    """Return the datasheet's memory bandwidth, the least of all kinds of GPUs."""
    if not device.rows:
        return device.memory_bandwidth_bytes_per_s
    row = min(device.rows, key=lambda row: row.memory_bandwidth_bytes_per_s)
    return modelled(row.memory_bandwidth_bytes_per_s, f"catalogue: {row.id}")
