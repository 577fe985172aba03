"""Clusters with fixed figures for the models of memory and time; none is read from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.units import GIB
from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import TransformerModel, Workload
from recipes.machine.cluster_records import Cluster, Figure
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.candidate_prediction import predict


def figure(value: float) -> Figure:
    return Figure(value=value, basis="modelled", source="test")


def measured(value: float) -> Figure:
    return Figure(value=value, basis="measured", source="test")


def h100_cluster(nodes: int = 1, ranks: int = 8, **changes: Any) -> Cluster:
    """Return DGX H100 nodes: 794 TFLOP/s achieved, 2.5 TB/s copy, 367 GB/s ring, 8 x 400 Gb/s."""
    cluster = Cluster(
        title="test",
        device="cuda",
        device_name="H100",
        nodes=nodes,
        ranks_per_node=ranks,
        memory_bytes_per_rank=figure(79.1 * GIB),
        flops_per_s={"bf16": figure(794e12)},
        peak_flops_per_s={"bf16": figure(989e12)},
        memory_bandwidth_bytes_per_s=figure(2.5e12),
        intra_bus_bandwidth_bytes_per_s=figure(367e9),
        intra_latency_s=figure(1.9e-6),
        inter_bus_bandwidth_bytes_per_s=figure(360e9),
        inter_latency_s=figure(14e-6),
        physical_cores_per_rank=14,
        has_bf16=True,
    )
    return msgspec.structs.replace(cluster, **changes)


def cpu_cluster(ranks: int = 2, **changes: Any) -> Cluster:
    """Return a small measured virtual machine, with Gloo over loopback. No catalogue has rates of CPUs."""
    cluster = Cluster(
        title="test",
        device="cpu",
        device_name="CPU",
        nodes=1,
        ranks_per_node=ranks,
        memory_bytes_per_rank=measured(10 * GIB),
        flops_per_s={"fp32": measured(50e9)},
        memory_bandwidth_bytes_per_s=measured(16e9),
        intra_bus_bandwidth_bytes_per_s=measured(1.2e9),
        intra_latency_s=measured(200e-6),
    )
    return msgspec.structs.replace(cluster, **changes)


def case(
    model: TransformerModel,
    *,
    strategy: str = "ddp",
    ranks: int = 8,
    micro_batch: int = 1,
    grad_accum: int = 1,
    sequence_length: int | None = None,
    precision: str = "bf16",
    checkpointing: str = "none",
) -> tuple[Workload, Candidate]:
    """Return one way to run the model; its global batch follows from the other sizes."""
    global_batch = micro_batch * grad_accum * ranks
    workload = Workload(
        model=model,
        sequence_length=sequence_length or model.sequence_length,
        global_batch=global_batch,
        precision=precision,  # type: ignore[arg-type]
    )
    return workload, Candidate(
        strategy=strategy,
        degrees=Degrees(dp=ranks) if strategy == "ddp" else Degrees(fsdp=ranks),
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        global_batch=global_batch,
        activation_checkpointing=checkpointing,  # type: ignore[arg-type]
        precision=precision,
    )


def predicted_memory(
    workload: Workload, candidate: Candidate, cluster: Cluster, **stack: str
) -> MemoryBreakdown:
    """Return the peak memory of the fullest rank."""
    return predict(workload, candidate, cluster, **stack).memory_bytes_per_gpu


def predicted_time(workload: Workload, candidate: Candidate, cluster: Cluster) -> TimeBreakdown:
    """Return the time of one optimizer step with its interval."""
    return predict(workload, candidate, cluster).step_time_s
