"""What the models say of one candidate: memory, step time with its interval, throughput, MFU.

Where a training step was measured on this machine, the modelled time is scaled by measured over modelled of the nearest such
step: the model then only has to carry the difference between the two.
"""

from __future__ import annotations

from types import ModuleType
from typing import Literal, cast

import msgspec

from probes.record import Reason, Record, Unknown
from recipes.batch import data_parallel_ranks
from recipes.constants import constant
from recipes.implementations import REFERENCE
from recipes.memory import memory_breakdown
from recipes.models import flops_per_token, load_models
from recipes.plan import (
    Candidate,
    Cluster,
    Degrees,
    MemoryBreakdown,
    Predicted,
    StepAnchor,
    TimeBreakdown,
)
from recipes.registry import STRATEGIES
from recipes.step_time import StepTerms, layer_times, optimizer_time_s
from recipes.workload import Workload


def strategy_module(strategy: str) -> ModuleType:
    """The module of a strategy by its id. Raises KeyError for an unknown one."""
    return {row.id: row for row in STRATEGIES}[strategy].load()


def predict_memory(
    workload: Workload, candidate: Candidate, cluster: Cluster, *, implementation: str = REFERENCE
) -> MemoryBreakdown:
    """Peak memory of the fullest rank."""
    footprint = strategy_module(candidate.strategy).footprint(workload, candidate, cluster)
    return memory_breakdown(workload, candidate, footprint, cluster.device, implementation=implementation)


def model_step(
    workload: Workload, candidate: Candidate, cluster: Cluster, *, implementation: str = REFERENCE
) -> StepTerms | Unknown:
    """The step from formulas and rates alone, without a measured step."""
    strategy = strategy_module(candidate.strategy)
    compute = strategy.footprint(workload, candidate, cluster).compute
    layers = layer_times(workload, candidate, cluster, compute, implementation=implementation)
    if isinstance(layers, Unknown):
        return layers
    exposed: float | Unknown = 0.0
    if data_parallel_ranks(candidate.degrees) > 1:
        exposed = cast("float | Unknown", strategy.exposed_communication_s(workload, candidate, cluster, layers))
    optimizer = optimizer_time_s(workload, cluster, strategy.states_per_rank(candidate), implementation=implementation)
    if isinstance(exposed, Unknown):
        return exposed
    if isinstance(optimizer, Unknown):
        return optimizer
    return StepTerms(compute=candidate.grad_accum * layers.total_s, exposed_communication=exposed, optimizer=optimizer)


def predict_time(workload: Workload, candidate: Candidate, cluster: Cluster, *, implementation: str = REFERENCE) -> TimeBreakdown:
    """One optimizer step with an interval: the samples' spread where this very step was measured, the models' error else."""
    terms = model_step(workload, candidate, cluster, implementation=implementation)
    if isinstance(terms, Unknown):
        return TimeBreakdown(total=terms, compute=terms, exposed_communication=terms, optimizer=terms, low=terms, high=terms)
    scale = _anchored(workload, candidate, cluster, implementation)
    return TimeBreakdown(
        total=terms.total * scale.factor,
        compute=terms.compute * scale.factor,
        exposed_communication=terms.exposed_communication * scale.factor,
        optimizer=terms.optimizer * scale.factor,
        low=terms.total * scale.factor * scale.low,
        high=terms.total * scale.factor * scale.high,
    )


def predict(workload: Workload, candidate: Candidate, cluster: Cluster, *, implementation: str = REFERENCE) -> Predicted:
    """Memory, time and what follows from them. MFU is against the datasheet peak; both are Unknown where a rate is."""
    memory = predict_memory(workload, candidate, cluster, implementation=implementation)
    time = predict_time(workload, candidate, cluster, implementation=implementation)
    if isinstance(time.total, Unknown):
        return Predicted(memory_bytes_per_gpu=memory, step_time_s=time, tokens_per_s_per_gpu=time.total, mfu=time.total)
    tokens_per_s = workload.tokens_per_step / cluster.world_size / time.total
    peak = cluster.peak_flops_per_s.get(workload.precision)
    mfu: float | Unknown = Unknown(Reason.NOT_RECORDED, f"{workload.precision} peak of {cluster.device_name}")
    if peak is not None:
        mfu = tokens_per_s * flops_per_token(workload.model, workload.sequence_length) / peak.value
    return Predicted(memory_bytes_per_gpu=memory, step_time_s=time, tokens_per_s_per_gpu=tokens_per_s, mfu=mfu)


Nearness = Literal["same", "similar", "none"]


class _Scale(Record, kw_only=True):
    """Measured over modelled time of the nearest measured step, with the interval around its product."""

    factor: float
    low: float
    high: float
    nearness: Nearness = "none"


def nearness(workload: Workload, candidate: Candidate, cluster: Cluster) -> Nearness:
    """Whether the prediction rests on a measurement of the same step, of a similar one, or on none."""
    return _anchored(workload, candidate, cluster, REFERENCE).nearness


def _anchored(workload: Workload, candidate: Candidate, cluster: Cluster, implementation: str) -> _Scale:
    usable = [anchor for anchor in cluster.anchors if anchor.precision == workload.precision]
    for anchor in sorted(usable, key=lambda one: _distance(one, workload, candidate, cluster)):
        modelled = _model_anchor(anchor, cluster, implementation)
        if isinstance(modelled, Unknown):
            continue
        factor = anchor.step_time_s / modelled
        if _distance(anchor, workload, candidate, cluster)[:-1] == (False, False, False, 0.0):
            spread = constant("measured_error")
            return _Scale(
                factor=factor,
                low=min(anchor.low_s / anchor.step_time_s, 1 - spread),
                high=max(anchor.high_s / anchor.step_time_s, 1 + spread),
                nearness="same",
            )
        error = constant("anchored_error")
        return _Scale(factor=factor, low=1 / (1 + error), high=1 + error, nearness="similar")
    return _Scale(factor=1.0, low=constant("modelled_low"), high=constant("modelled_high"))


_Distance = tuple[bool, bool, bool, float, int]


def _distance(anchor: StepAnchor, workload: Workload, candidate: Candidate, cluster: Cluster) -> _Distance:
    """For ordering: same number of ranks first, then model, strategy with checkpointing, tokens per micro-batch, accumulation."""
    tokens = candidate.micro_batch * workload.sequence_length
    measured = anchor.micro_batch * anchor.sequence_length
    return (
        anchor.world_size != cluster.world_size,
        anchor.model != workload.model.id,
        (anchor.strategy, anchor.activation_checkpointing) != (candidate.strategy, candidate.activation_checkpointing),
        max(tokens, measured) / min(tokens, measured) - 1.0,
        abs(anchor.grad_accum - candidate.grad_accum),
    )


def _model_anchor(anchor: StepAnchor, cluster: Cluster, implementation: str) -> float | Unknown:
    """What the model alone says of a measured step."""
    model = next((preset for preset in load_models() if preset.id == anchor.model), None)
    if model is None or anchor.strategy not in {row.id for row in STRATEGIES}:
        return Unknown(Reason.NOT_RECORDED, f"model {anchor.model} with {anchor.strategy}")
    ranks = anchor.world_size
    global_batch = anchor.micro_batch * anchor.grad_accum * ranks
    precision: Literal["bf16", "fp32"] = "bf16" if anchor.precision == "bf16" else "fp32"
    workload = Workload(model=model, sequence_length=anchor.sequence_length, global_batch=global_batch, precision=precision)
    candidate = Candidate(
        strategy=anchor.strategy,
        degrees=Degrees(dp=ranks) if anchor.strategy == "ddp" else Degrees(fsdp=ranks),
        micro_batch=anchor.micro_batch,
        grad_accum=anchor.grad_accum,
        global_batch=global_batch,
        activation_checkpointing=anchor.activation_checkpointing,
        precision=precision,
    )
    terms = model_step(workload, candidate, _measured_ranks(cluster, ranks), implementation=implementation)
    return terms if isinstance(terms, Unknown) else terms.total


def _measured_ranks(cluster: Cluster, ranks: int) -> Cluster:
    """The cluster as it was when `ranks` ranks of one node were measured."""
    if ranks == cluster.world_size:
        return cluster
    return msgspec.structs.replace(cluster, nodes=1, ranks_per_node=ranks)
