"""The one builder of a `Cluster`: measured rates first, then catalogue rows or stated rates, else nothing."""

from __future__ import annotations

from probes.catalogue.hardware import GpuModel
from recipes.cases.gpu_names import four_bit_rates
from recipes.constants import constant
from recipes.machine.description import Device, MachineDescription
from recipes.machine.links import hop_s, network_bandwidth, network_hop_s, ring_bandwidth
from recipes.machine.measured_rates import MeasuredRates
from recipes.planning.plan import Cluster, Figure

_NOTHING_MEASURED = MeasuredRates()
_WIDER = (("fp16", "fp32"), ("tf32", "fp32"), ("mxfp8", "fp8"))
"""Precisions that some GPUs have no unit for, each with the one that they compute it in."""


def build_cluster(machine: MachineDescription, measured: MeasuredRates = _NOTHING_MEASURED) -> Cluster:
    """Return the machine as the models see it, one rank per GPU or per share of the CPU."""
    device, links, network = machine.device, machine.links, machine.network
    row, spans_nodes = device.row, machine.nodes > 1
    is_gpu = device.kind == "cuda"
    peaks = catalogue_peaks(device.rows) or device.peak_flops_per_s
    return Cluster(
        title=machine.title,
        device=device.kind,
        device_name=device.name,
        gpu=row.id if row is not None else "",
        architecture=row.architecture if row is not None else "",
        fabric=links.fabric,
        domain_ranks=links.domain_ranks,
        transport=network.transport,
        nodes=machine.nodes,
        ranks_per_node=machine.ranks_per_node,
        memory_bytes_per_rank=_usable(device),
        flops_per_s=_achievable(device.rows) | measured.flops_per_s,
        peak_flops_per_s=peaks,
        memory_bandwidth_bytes_per_s=measured.memory_bandwidth_bytes_per_s or _bandwidth(device),
        attention_rates=measured.attention_rates,
        hidden_communication=measured.hidden_communication,
        intra_bus_bandwidth_bytes_per_s=measured.ring_bytes_per_s
        or ring_bandwidth(links, device, measured.host_copies_bytes_per_s),
        intra_latency_s=measured.hop_s or (hop_s(links) if is_gpu else None),
        collective_fits=measured.collective_fits,
        inter_bus_bandwidth_bytes_per_s=network_bandwidth(network) if spans_nodes else None,
        inter_latency_s=network_hop_s() if spans_nodes else None,
        physical_cores_per_rank=device.cores_per_rank,
        has_bf16=device.has_bf16 if is_gpu else _is_faster_in_bf16(measured.flops_per_s),
        noise_scale_sequences=measured.noise_scale_sequences,
        data_loader_workers=measured.data_loader_workers,
        reads_per_s=measured.reads_per_s,
        loaded_samples_per_s=measured.loaded_samples_per_s,
        anchors=measured.anchors,
        image_anchors=measured.image_anchors,
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
    if row.id in four_bit_rates():
        peaks.setdefault("nvfp4", four_bit_rates()[row.id].flops_per_s)
    return peaks


def catalogue_peaks(rows: tuple[GpuModel, ...]) -> dict[str, Figure]:
    """Return the datasheet's rate by precision, the least of all kinds of GPUs."""
    by_row = [(_peaks(row), row) for row in rows]
    least = {
        name: min(((peaks[name], row) for peaks, row in by_row), key=lambda pair: pair[0])
        for name in (by_row[0][0] if by_row else ())
        if all(name in peaks for peaks, _ in by_row)
    }
    return {name: _modelled(value, f"catalogue: {row.id}") for name, (value, row) in least.items()}


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
        figures[name] = _modelled(value, f"catalogue: {row.id}, {how}")
    return figures


def _bandwidth(device: Device) -> Figure | None:
    """Return the datasheet's memory bandwidth, the least of all kinds of GPUs."""
    if not device.rows:
        return device.memory_bandwidth_bytes_per_s
    row = min(device.rows, key=lambda row: row.memory_bandwidth_bytes_per_s)
    return _modelled(row.memory_bandwidth_bytes_per_s, f"catalogue: {row.id}")


def _modelled(value: float, source: str) -> Figure:
    return Figure(value=value, basis="modelled", source=source)
