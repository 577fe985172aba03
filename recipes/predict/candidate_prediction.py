"""Prediction of one candidate: memory, step time with its interval, throughput, MFU.

If a training step was measured on this machine in the same precision, the modelled time is scaled by the
ratio of measured to modelled time of the nearest measured step. The model then only has to predict the
difference between the measured and the planned step.
"""

import math
from typing import Literal, cast

import msgspec

from probes.base.record import Reason, Record, Unknown, map_known
from recipes.constants import constant
from recipes.job.candidate import Candidate, Degrees
from recipes.job.models.counts import flops_per_token, preset
from recipes.job.workload import Precision, TransformerModel, Workload
from recipes.machine.cluster_records import Cluster, StepAnchor
from recipes.machine.scaled_rates import with_figures
from recipes.predict.breakdowns import (
    UNKNOWN_LOADING,
    MemoryBreakdown,
    Predicted,
    TimeBreakdown,
    scaled_terms,
)
from recipes.predict.familiarity import familiarity
from recipes.predict.memory.peak import memory_of
from recipes.predict.parameters import time_interval
from recipes.predict.speed.step import step_time
from recipes.predict.stacks import REFERENCE, load_stacks
from recipes.predict.training_job import TransformerJob, transformer_job


def _job(
    workload: Workload, candidate: Candidate, cluster: Cluster, stack: str = REFERENCE
) -> TransformerJob:
    return transformer_job(workload, candidate, cluster, load_stacks()[stack])


def time_with_interval(job: TransformerJob) -> TimeBreakdown:
    """Return the time of one optimizer step with an interval.

    The total and its main terms are Unknown if a rate or a latency that the step needs is unknown.
    """
    terms = step_time(job)
    if isinstance(terms, Unknown):
        return TimeBreakdown(
            total=terms, compute=terms, exposed_communication=terms, optimizer=terms, low=terms, high=terms
        )
    # Measured steps trained on generated data, so the time for loading is added.
    return with_loading(_scaled(terms, _anchored(job)), job)


def corrected(time: TimeBreakdown, job: TransformerJob) -> TimeBreakdown:
    """Return the time scaled by measurements of this machine, if there are any."""
    scale = _anchored(job) if job.cluster.anchors and not isinstance(time.total, Unknown) else None
    return time if scale is None or scale.nearness == "none" else _scaled(time, scale)


def _scaled(time: TimeBreakdown, scale: "_Scale") -> TimeBreakdown:
    total = cast("float", time.total) * scale.factor
    return TimeBreakdown(
        total=total, low=total * scale.low, high=total * scale.high, **scaled_terms(time, scale.factor)
    )


def predict(
    workload: Workload, candidate: Candidate, cluster: Cluster, *, stack: str = REFERENCE
) -> Predicted:
    """Return memory, time, throughput and MFU.

    MFU is relative to the datasheet peak. Throughput and MFU are Unknown if a rate that they need is Unknown.
    """
    job = _job(workload, candidate, cluster, stack)
    return predicted_of(job, memory_of(job), time_with_interval(job))


def predicted_of(job: TransformerJob, memory: MemoryBreakdown, time: TimeBreakdown) -> Predicted:
    """Return a prediction with throughput and MFU."""
    workload, cluster = job.workload, job.cluster
    if isinstance(time.total, Unknown):
        return Predicted(
            memory_bytes_per_gpu=memory,
            step_time_s=time,
            tokens_per_s_per_gpu=time.total,
            samples_per_s=time.total,
            mfu=time.total,
        )
    tokens_per_s = workload.tokens_per_step / cluster.world_size / time.total
    peak = cluster.peak_flops_per_s.get(workload.precision)
    mfu: float | Unknown = Unknown(Reason.NOT_RECORDED, f"{workload.precision} peak of {cluster.device_name}")
    if peak is not None:
        mfu = tokens_per_s * flops_per_token(workload.model, workload.sequence_length) / peak.value
    return Predicted(
        memory_bytes_per_gpu=memory,
        step_time_s=time,
        tokens_per_s_per_gpu=tokens_per_s,
        samples_per_s=workload.global_batch / time.total,
        mfu=mfu,
    )


Nearness = Literal["same", "similar", "none"]


class _Scale(Record, kw_only=True):
    """Measured over modelled time of the nearest measured step, with the interval around the scaled time."""

    factor: float
    low: float
    high: float
    nearness: Nearness = "none"


def nearness(workload: Workload, candidate: Candidate, cluster: Cluster) -> Nearness:
    """Return whether the prediction rests on a measurement of the same step, of a similar one, or on none."""
    return _anchored(_job(workload, candidate, cluster)).nearness


def _anchored(job: TransformerJob) -> _Scale:
    workload, cluster = job.workload, job.cluster
    usable = [anchor for anchor in cluster.anchors if anchor.precision == workload.precision]
    for anchor in sorted(usable, key=lambda step: _distance(step, job)):
        modelled = modelled_anchor(anchor, cluster, workload.model)
        if isinstance(modelled, Unknown):
            continue
        factor = anchor.step_time_s / modelled
        if _distance(anchor, job)[:-1] == (False, False, False, False, 0.0):
            spread = constant("measured_error")
            return _Scale(
                factor=factor,
                low=min(anchor.low_s / anchor.step_time_s, 1 - spread),
                high=max(anchor.high_s / anchor.step_time_s, 1 + spread),
                nearness="same",
            )
        error = constant("anchored_error")
        return _Scale(factor=factor, low=1 / (1 + error), high=1 + error, nearness="similar")
    seen = familiarity("time", job.stack.id, cluster.gpu or "") if cluster.device == "cuda" else "seen-seen"
    ends = time_interval("moe" if workload.model.is_moe else "dense", "catalogue", seen)
    return _Scale(factor=1.0, low=ends.low, high=ends.high)


_Distance = tuple[bool, bool, bool, bool, float, int]


def _threads(measured: int, cluster: Cluster) -> int:
    """Return the threads of a rank; if they are unknown or do not matter, those of the measurement."""
    if cluster.device == "cuda" or not measured:
        return measured or 1
    return cluster.physical_cores_per_rank or measured


def _distance(anchor: StepAnchor, job: TransformerJob) -> _Distance:
    """Return a sort key that puts the most similar steps first.

    The parts of the key compare, in this order: the busy threads of all ranks, the number of ranks, the
    model, the strategy with checkpointing, the tokens per micro-batch, the accumulation.
    """
    workload, candidate, cluster = job.workload, job.candidate, job.cluster
    tokens = candidate.micro_batch * workload.sequence_length
    measured = anchor.micro_batch * anchor.sequence_length
    return (
        anchor.world_size * (anchor.threads or 1) != cluster.world_size * _threads(anchor.threads, cluster),
        anchor.world_size != cluster.world_size,
        anchor.model != workload.model.id,
        (anchor.strategy, anchor.activation_checkpointing)
        != (candidate.strategy, candidate.activation_checkpointing),
        max(tokens, measured) / min(tokens, measured) - 1.0,
        abs(anchor.grad_accum - candidate.grad_accum),
    )


def modelled_anchor(anchor: StepAnchor, cluster: Cluster, planned: TransformerModel) -> float | Unknown:
    """Return the modelled time of a measured step, of the reference workload or of the user's program.

    `planned` is the model of the job, which may be in no preset. The result is Unknown if the step's model is
    neither `planned` nor a preset, or if its strategy is neither DDP nor FSDP.
    """
    model = planned if planned.id == anchor.model else preset(anchor.model)
    ranks = anchor.world_size
    degrees = {"ddp": Degrees(dp=ranks), "fsdp": Degrees(fsdp=ranks)}.get(anchor.strategy)
    if model is None or degrees is None:
        return Unknown(Reason.NOT_RECORDED, f"model {anchor.model} with {anchor.strategy}")
    global_batch = anchor.micro_batch * anchor.grad_accum * ranks
    precision = cast("Precision", anchor.precision)
    workload = Workload(
        model=model, sequence_length=anchor.sequence_length, global_batch=global_batch, precision=precision
    )
    candidate = Candidate(
        strategy=anchor.strategy,
        degrees=degrees,
        micro_batch=anchor.micro_batch,
        grad_accum=anchor.grad_accum,
        global_batch=global_batch,
        activation_checkpointing=anchor.activation_checkpointing,
        precision=precision,
    )
    terms = step_time(_job(workload, candidate, as_measured(cluster, ranks, anchor.threads)))
    return map_known(terms, lambda terms: cast("float", terms.total))


def as_measured(cluster: Cluster, ranks: int, threads: int) -> Cluster:
    """Return the cluster of a measured step, whose ranks have `threads` CPU threads each.

    It is the cluster itself if all its ranks took part with all their cores. Otherwise it is one node with
    `ranks` ranks, whose rates are scaled by the share of their cores that they used.
    """
    share = (threads or 1) / _threads(threads, cluster)
    if ranks == cluster.world_size and share == 1:
        return cluster
    measured = msgspec.structs.replace(cluster, nodes=1, ranks_per_node=ranks)
    return measured if share == 1 else _with_share(measured, share)


def _with_share(cluster: Cluster, share: float) -> Cluster:
    """Return the cluster whose ranks each use only the part `share` of their cores."""

    rates = (
        msgspec.structs.replace(rate, flops_per_s=rate.flops_per_s * share)
        for rate in cluster.attention_rates
    )
    return msgspec.structs.replace(
        with_figures(cluster, share, "memory_bandwidth_bytes_per_s"),
        flops_per_s={name: figure.times(share) for name, figure in cluster.flops_per_s.items()},
        attention_rates=tuple(rates),
    )


def loading_s(job: TransformerJob) -> float | Unknown:
    """Return the seconds to load one step's sequences; Unknown if neither storage nor loaders were measured.

    The slower of storage and loaders determines the time. Sequences are read at random places in files of
    tokens, in requests of the size that was measured. Loaders were measured with images, which are larger
    than sequences, so their rate is a lower bound.
    """
    cluster = job.cluster
    sequences = job.candidate.micro_batch * job.candidate.grad_accum
    seconds = []
    if cluster.reads_per_s is not None:
        requests = math.ceil(
            job.workload.sequence_length * constant("stored_token_bytes") / constant("read_request_bytes")
        )
        seconds.append(sequences * cluster.ranks_per_node * requests / cluster.reads_per_s.value)
    if cluster.loaded_samples_per_s is not None:
        seconds.append(sequences / cluster.loaded_samples_per_s.value)
    return max(seconds) if seconds else UNKNOWN_LOADING


def with_loading(time: TimeBreakdown, job: TransformerJob) -> TimeBreakdown:
    """Return the step with the time that it waits for data.

    If this time or the step's time is unknown, return the step unchanged.
    """
    needed = loading_s(job)
    if isinstance(needed, Unknown) or isinstance(time.total, Unknown):
        return time
    waiting = max(0.0, needed - time.total)
    return _with_data(time, waiting, waiting)


def without_loading(time: TimeBreakdown) -> TimeBreakdown:
    """Return the step of a program that generates its data."""
    if isinstance(time.data, Unknown) or isinstance(time.total, Unknown):
        return time
    return _with_data(time, 0.0, -time.data)


def _with_data(time: TimeBreakdown, data_s: float, longer_s: float) -> TimeBreakdown:
    ends = {name: cast("float", getattr(time, name)) + longer_s for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, data=data_s, **ends)
