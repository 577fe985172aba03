"""Duration of one optimizer step from rates of the machine: computation, visible communication, optimizer."""

from __future__ import annotations

from typing import Literal

from probes.record import Reason, Record, Unknown
from recipes.constants import constant
from recipes.implementations import (
    REFERENCE,
    Compute,
    load_implementations,
    root_saved_bytes_per_token,
    saved_bytes_per_token,
)
from recipes.models import attention_flops_per_token, layer_matmul_parameter_count, parameter_count
from recipes.overlap import LayerTimes
from recipes.plan import Candidate, Cluster, Figure
from recipes.workload import Workload


class StepTerms(Record, kw_only=True):
    """One optimizer step, seconds."""

    compute: float
    exposed_communication: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.compute + self.exposed_communication + self.optimizer


def layer_times(
    workload: Workload, candidate: Candidate, cluster: Cluster, compute: Compute, *, implementation: str = REFERENCE
) -> LayerTimes | Unknown:
    """Computation of one micro-batch on one rank.

    A layer's time is its matrix products at the GEMM rate, its attention at the rate of fused attention, and its elementwise
    work as bytes over memory bandwidth, added up because eager kernels run one after the other. On a GPU it is at least
    what the host needs to launch its kernels. The backward pass costs twice the forward pass, full checkpointing one more.
    """
    rates = _rates(cluster, workload.precision)
    if isinstance(rates, Unknown):
        return rates
    model, row = workload.model, load_implementations()[implementation]
    saved = row.saved[compute]
    tokens = candidate.micro_batch * workload.sequence_length
    products = 2.0 * layer_matmul_parameter_count(model) * tokens / rates.products_flops_per_s
    attention_flops = attention_flops_per_token(model, workload.sequence_length) / model.layers / 3 * tokens
    attention = attention_flops / rates.attention_flops_per_s
    moved = constant("traffic_per_saved_byte") * tokens
    elementwise = moved * saved_bytes_per_token(model, saved) / rates.memory_bytes_per_s / 3
    forward = products + attention + elementwise
    if cluster.device == "cuda":
        forward = max(forward, row.forward_kernels * constant("kernel_launch_s"))
    head = 6.0 * model.vocab * model.hidden * tokens / rates.products_flops_per_s
    root_bytes = moved * root_saved_bytes_per_token(model, saved) + 2 * saved.logits * model.vocab * tokens
    return LayerTimes(
        layers=model.layers,
        forward_s=forward,
        backward_s=2 * forward + (forward if candidate.activation_checkpointing == "full" else 0.0),
        root_s=head + root_bytes / rates.memory_bytes_per_s,
    )


def optimizer_time_s(
    workload: Workload, cluster: Cluster, sharing_ranks: int, *, implementation: str = REFERENCE
) -> float | Unknown:
    """The optimizer's traffic over memory bandwidth; `sharing_ranks` share one copy of the states."""
    bandwidth = cluster.memory_bandwidth_bytes_per_s
    if bandwidth is None:
        return Unknown(Reason.NOT_RECORDED, f"memory bandwidth of {cluster.device_name}")
    traffic = load_implementations()[implementation].optimizer_traffic_bytes
    return traffic * parameter_count(workload.model) / sharing_ranks / bandwidth.value


class _Rates(Record, kw_only=True):
    products_flops_per_s: float
    attention_flops_per_s: float
    memory_bytes_per_s: float


def _rates(cluster: Cluster, precision: Literal["bf16", "fp32"]) -> _Rates | Unknown:
    flops: Figure | None = cluster.flops_per_s.get(precision)
    if flops is None:
        return Unknown(Reason.NOT_RECORDED, f"{precision} GEMM rate of {cluster.device_name}")
    if cluster.memory_bandwidth_bytes_per_s is None:
        return Unknown(Reason.NOT_RECORDED, f"memory bandwidth of {cluster.device_name}")
    return _Rates(
        products_flops_per_s=flops.value * constant("step_gemm_fraction"),
        attention_flops_per_s=flops.value * constant("attention_fraction"),
        memory_bytes_per_s=cluster.memory_bandwidth_bytes_per_s.value,
    )
