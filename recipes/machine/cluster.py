"""The machine as the models see it: figures measured here first, catalogue rows else, nothing where neither
knows.

GPUs of different kinds are planned for as the least of them. GPUs split by MIG are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from probes.base.errors import UsageError
from probes.base.record import Unknown, known, value_or
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement
from recipes.constants import constant
from recipes.job.workload import Precision
from recipes.machine.layout import cores_per_rank, default_ranks, training_gpus
from recipes.machine.links import (
    inter_bandwidth,
    inter_latency,
    inter_transport,
    intra_bandwidth,
    intra_fabric,
    intra_latency,
)
from recipes.machine.measured_rates import (
    collective_fits,
    image_anchors,
    measured_attention,
    measured_flops,
    measured_loading,
    measured_memory_bandwidth,
    measured_noise_scale,
    measured_overlap,
    measured_reads,
    measured_workers,
    step_anchors,
)
from recipes.planning.plan import Cluster, Figure

_PRECISIONS: tuple[Precision, ...] = get_args(Precision)
_BF16_CAPABILITY = (8, 0)
"""Ampere, the first NVIDIA architecture with bf16 tensor cores."""


def cluster_of(
    facts: MachineFacts,
    measurements: tuple[Measurement, ...],
    catalogue: Catalogue,
    *,
    nodes: int = 1,
    ranks_per_node: int | None = None,
) -> Cluster:
    """`nodes` machines like this one, with one rank per GPU, or a share of the CPU per rank where there is no
    usable GPU.

    Raises UsageError for a number of nodes or ranks that the machine cannot have.
    """
    if nodes < 1:
        raise UsageError(f"{nodes} nodes are too few", "give at least 1")
    ranks = default_ranks(facts) if ranks_per_node is None else ranks_per_node
    if ranks < 1:
        raise UsageError(f"{ranks} ranks per node are too few", "give at least 1")
    gpus = training_gpus(facts)
    if not gpus:
        return _cpu_cluster(facts, measurements, nodes, ranks)
    if ranks > len(gpus):
        raise UsageError(
            f"{ranks} ranks per node, but the machine has {len(gpus)} usable GPUs",
            f"give at most {len(gpus)}",
        )
    return _gpu_cluster(facts, measurements, catalogue, nodes=nodes, ranks=ranks)


def _title(facts: MachineFacts, nodes: int, device: str) -> str:
    host = facts.hostname if known(facts.hostname) and facts.hostname else facts.source or "this machine"
    return f"{nodes} x {host}: {device}" if nodes > 1 else f"{host}: {device}"


def _gpu_cluster(
    facts: MachineFacts,
    measurements: tuple[Measurement, ...],
    catalogue: Catalogue,
    *,
    nodes: int,
    ranks: int,
) -> Cluster:
    gpus = training_gpus(facts)
    names = sorted({gpu.name if known(gpu.name) else "unknown GPU" for gpu in gpus})
    rows = tuple(catalogue.gpu(name) for name in names)
    warnings = []
    if len(names) > 1:
        warnings.append(
            f"GPUs of different kinds ({', '.join(names)}): every rank is planned as the least of them"
        )
    all_gpus = facts.gpus if known(facts.gpus) else ()
    if len(all_gpus) > len(gpus):
        warnings.append(
            f"{len(all_gpus) - len(gpus)} GPUs in MIG mode are left out: ranks cannot communicate between slices"
        )
    unknown = [name for name, row in zip(names, rows, strict=True) if row is None]
    if unknown:
        warnings.append(
            f"{', '.join(unknown)} is not in the catalogue: without `rigtune bench` there is no step time"
        )
    memory = [gpu.memory_bytes for gpu in gpus if known(gpu.memory_bytes)]
    flops, peak = _catalogue_flops(rows)
    one = rows[0] if len(rows) == 1 else None
    usable = constant("cuda_usable_fraction")
    return Cluster(
        title=_title(facts, nodes, f"{ranks} x {' / '.join(names)}"),
        device="cuda",
        device_name=" / ".join(names),
        gpu=one.id if one is not None else "",
        architecture=one.architecture if one is not None else "",
        fabric=intra_fabric(facts, rows),
        transport=inter_transport(facts),
        nodes=nodes,
        ranks_per_node=ranks,
        memory_bytes_per_rank=_measured(
            min(memory) * usable, "GPU memory that the driver reports, less what it keeps"
        )
        if len(memory) == len(gpus)
        else None,
        flops_per_s=flops | measured_flops(measurements),
        peak_flops_per_s=peak,
        memory_bandwidth_bytes_per_s=measured_memory_bandwidth(measurements) or _catalogue_bandwidth(rows),
        attention_rates=measured_attention(measurements),
        hidden_communication=measured_overlap(measurements, ranks),
        intra_bus_bandwidth_bytes_per_s=intra_bandwidth(facts, gpus, rows, measurements, ranks),
        intra_latency_s=intra_latency(facts, measurements, ranks),
        collective_fits=collective_fits(measurements, ranks),
        inter_bus_bandwidth_bytes_per_s=inter_bandwidth(facts) if nodes > 1 else None,
        inter_latency_s=inter_latency() if nodes > 1 else None,
        physical_cores_per_rank=_cores_per_rank(facts, ranks),
        has_bf16=all(has_bf16(gpu, catalogue) for gpu in gpus),
        noise_scale_sequences=measured_noise_scale(measurements),
        data_loader_workers=measured_workers(measurements, ranks),
        reads_per_s=measured_reads(measurements),
        loaded_samples_per_s=measured_loading(measurements, ranks),
        anchors=step_anchors(measurements),
        image_anchors=image_anchors(measurements),
        warnings=tuple(warnings),
    )


def _cpu_cluster(
    facts: MachineFacts, measurements: tuple[Measurement, ...], nodes: int, ranks: int
) -> Cluster:
    warnings = []
    gpus = facts.gpus
    if isinstance(gpus, Unknown):
        warnings.append(f"GPUs are {gpus}: planned for the CPU")
    elif gpus:
        warnings.append(
            "all GPUs are in MIG mode, and ranks cannot communicate between slices: planned for the CPU"
        )
    threads = _cores_per_rank(facts, ranks)
    flops = measured_flops(measurements, threads)
    name = str(facts.cpu.model) if known(facts.cpu.model) else "CPU"
    return Cluster(
        title=_title(facts, nodes, f"{ranks} CPU ranks, {name}"),
        device="cpu",
        device_name=name,
        fabric="host",
        transport=inter_transport(facts),
        nodes=nodes,
        ranks_per_node=ranks,
        memory_bytes_per_rank=_host_memory_per_rank(facts, ranks),
        flops_per_s=flops,
        memory_bandwidth_bytes_per_s=measured_memory_bandwidth(measurements, threads),
        attention_rates=measured_attention(measurements, threads),
        hidden_communication=measured_overlap(measurements, ranks),
        intra_bus_bandwidth_bytes_per_s=intra_bandwidth(facts, (), (), measurements, ranks),
        intra_latency_s=intra_latency(facts, measurements, ranks),
        collective_fits=collective_fits(measurements, ranks),
        inter_bus_bandwidth_bytes_per_s=inter_bandwidth(facts) if nodes > 1 else None,
        inter_latency_s=inter_latency() if nodes > 1 else None,
        physical_cores_per_rank=_cores_per_rank(facts, ranks),
        has_bf16="bf16" in flops and "fp32" in flops and flops["bf16"].value > flops["fp32"].value,
        noise_scale_sequences=measured_noise_scale(measurements),
        data_loader_workers=measured_workers(measurements, ranks),
        reads_per_s=measured_reads(measurements),
        loaded_samples_per_s=measured_loading(measurements, ranks),
        anchors=step_anchors(measurements),
        image_anchors=image_anchors(measurements),
        warnings=tuple(warnings),
    )


def _measured(value: float, source: str) -> Figure:
    return Figure(value=value, basis="measured", source=source)


def _host_memory_per_rank(facts: MachineFacts, ranks: int) -> Figure | None:
    """The free memory, or the cgroup's limit if that is less, in equal shares."""
    memory = facts.memory
    bounds = [
        float(bound)
        for bound in (
            value_or(memory.available_bytes, value_or(memory.total_bytes, None)),
            value_or(memory.limit_bytes, None),
        )
        if bound is not None
    ]
    if not bounds:
        return None
    return _measured(min(bounds) / ranks, f"available host memory or its limit, over {ranks} ranks")


def _cores_per_rank(facts: MachineFacts, ranks: int) -> int | None:
    """Physical cores for each rank; None where neither cores nor CPUs are known."""
    counted = known(facts.cpu.physical_cores) or known(facts.cpu.logical_cpus)
    return cores_per_rank(facts, ranks) if counted else None


def has_bf16(gpu: Gpu, catalogue: Catalogue) -> bool:
    """Whether its tensor cores multiply bf16; False where neither the driver nor the catalogue tells."""
    capability = value_or(gpu.compute_capability, "")
    row = catalogue.gpu(gpu.name) if known(gpu.name) else None
    text = capability or (row.compute_capability if row else "")
    major, _, minor = text.partition(".")
    return major.isdigit() and minor.isdigit() and (int(major), int(minor)) >= _BF16_CAPABILITY


def _least(
    rows: Iterable[GpuModel | None], value: Callable[[GpuModel], float | None]
) -> tuple[float, GpuModel] | None:
    """The least value over all rows with its row; None where any GPU or value is unknown."""
    found = []
    for row in rows:
        figure = value(row) if row is not None else None
        if row is None or figure is None:
            return None
        found.append((figure, row))
    return min(found, key=lambda pair: pair[0]) if found else None


def _catalogue_flops(rows: tuple[GpuModel | None, ...]) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Achievable and datasheet rates by precision."""
    flops: dict[str, Figure] = {}
    peaks: dict[str, Figure] = {}
    for precision in _PRECISIONS:
        peak = _least(rows, _peak_of(precision))
        if peak is None:
            continue
        peaks[precision] = Figure(
            value=peak[0], basis="modelled", source=f"catalogue: {peak[1].id}, {peak[1].source}"
        )
        rate = _least(rows, _achievable_of(precision))
        if rate is not None:
            fraction = constant("achievable_flops_fraction")
            how = (
                "best measured GEMM"
                if precision in rate[1].achievable_flops_per_s
                else f"{fraction:g} x datasheet"
            )
            flops[precision] = Figure(
                value=rate[0], basis="modelled", source=f"catalogue: {rate[1].id}, {how}"
            )
    return flops, peaks


def _peak_of(precision: str) -> Callable[[GpuModel], float | None]:
    return lambda row: row.peak_flops_per_s.get(precision)


def _achievable_of(precision: str) -> Callable[[GpuModel], float | None]:
    """The published achieved rate; where there is none, the usual fraction of the peak."""

    def achievable(row: GpuModel) -> float | None:
        peak = row.peak_flops_per_s.get(precision)
        usual = None if peak is None else peak * constant("achievable_flops_fraction")
        return row.achievable_flops_per_s.get(precision, usual)

    return achievable


def _catalogue_bandwidth(rows: tuple[GpuModel | None, ...]) -> Figure | None:
    """The datasheet's: what kernels reach of it is the models' to say."""
    least = _least(rows, lambda row: row.memory_bandwidth_bytes_per_s)
    return (
        None
        if least is None
        else Figure(value=least[0], basis="modelled", source=f"catalogue: {least[1].id}, datasheet")
    )
