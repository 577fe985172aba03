"""A step that `rigtune verify` measured on this machine, as an anchor of the plan's times.

The measurement states its model, layout and program, so a plan uses only measurements of its own job.
"""

import math
from typing import cast

import msgspec

from probes.base.record import Unknown
from probes.base.units import duration
from probes.facts.measurements import Measurement, Parameter
from recipes.constants import constant
from recipes.job.candidate import ActivationCheckpointing, Candidate
from recipes.job.workload import AnyWorkload, Workload
from recipes.machine.cluster_records import Cluster, StepAnchor
from recipes.machine.measured_rates import threads_of, whole_of
from recipes.planning.own_step import with_own_steps
from recipes.planning.programs import OWN, REFERENCE_PROGRAM
from recipes.planning.space import SHARDING_OF
from recipes.predict.candidate_prediction import modelled_anchor

BENCHMARK = "verify"
"""Id of the measurements of `rigtune verify`."""


def stated_interval(step_s: float) -> tuple[float, float]:
    """Return an interval for a step time predicted without one, from the error of anchored predictions."""
    error = constant("anchored_error")
    return step_s * (1 - error), step_s * (1 + error)


def memory_error() -> float:
    """Return the relative difference of measured and predicted memory above which a change is advised."""
    return constant("verified_memory_error")


def step_parameters(workload: Workload, candidate: Candidate, program_id: str) -> dict[str, Parameter]:
    """Return the parameters that identify a verified step of a program."""
    degrees = candidate.degrees
    return {
        "model": workload.model.id,
        "program": program_id,
        "tuning": workload.tuning,
        "optimizer": workload.optimizer,
        "strategy": candidate.strategy,
        "sharding": str(candidate.sharding or SHARDING_OF.get(candidate.strategy)),
        "world_size": math.prod((degrees.dp, degrees.fsdp, degrees.tp, degrees.pp, degrees.cp)),
        "copies": degrees.dp,
        "shards": degrees.fsdp,
        "micro_batch": candidate.micro_batch,
        "grad_accum": candidate.grad_accum,
        "sequence_length": workload.sequence_length,
        "precision": workload.precision,
        "activation_checkpointing": candidate.activation_checkpointing,
    }


def with_verified_steps(
    cluster: Cluster, workload: AnyWorkload, measurements: tuple[Measurement, ...], program_id: str
) -> Cluster:
    """Return the cluster with the verified steps of this job as anchors, and with a note about each."""
    if not isinstance(workload, Workload):
        return cluster
    used: list[StepAnchor] = []
    notes: list[str] = []
    for step in measurements:
        if not _is_of(step, workload, program_id):
            continue
        anchor = _anchor_of(step)
        modelled = modelled_anchor(anchor, cluster, workload.model) if anchor is not None else None
        name = f"the step of {workload.model.id} {_source(step)} ({duration(step.median)} on {step.subject})"
        if anchor is None or modelled is None:
            notes.append(f"{name} has a layout from which no other time can be derived, and is not used")
            continue
        if isinstance(modelled, Unknown):
            notes.append(f"{name} cannot scale other times, because rates of this machine are unknown")
            continue
        most = constant("own_step_factor")
        if not 1 / most <= anchor.step_time_s / modelled <= most:
            notes.append(f"{name} is far from its prediction of {duration(modelled)}, and is not used")
            continue
        used.append(anchor)
        notes.append(f"times are scaled by {name}")
    return msgspec.structs.replace(
        cluster,
        anchors=(*cluster.anchors, *used),
        warnings=(*cluster.warnings, *dict.fromkeys(notes)),
    )


def _is_of(step: Measurement, workload: Workload, program_id: str) -> bool:
    """Return whether a measurement is a verified step of this job's model and program.

    The reference workload stands in for the user's own torch program.
    """
    programs = (REFERENCE_PROGRAM, OWN) if program_id == OWN else (program_id,)
    return (
        step.bench_id == BENCHMARK
        and step.metric == "step_time_s"
        and bool(step.samples)
        and step.parameters.get("program") in programs
        and step.matches(
            model=workload.model.id, tuning="full", optimizer=workload.optimizer, precision=workload.precision
        )
        and workload.tuning == "full"
    )


def _anchor_of(step: Measurement) -> StepAnchor | None:
    """Return the anchor of a verified step; None if the model of anchors cannot express its layout."""
    sizes = [
        whole_of(step.parameters.get(name))
        for name in ("micro_batch", "grad_accum", "sequence_length", "world_size", "copies", "shards")
    ]
    strategy, recomputed = (
        str(step.parameters.get(name)) for name in ("strategy", "activation_checkpointing")
    )
    micro_batch, grad_accum, length, ranks, copies, shards = sizes
    layout = (str(step.parameters.get("sharding")), copies, shards)
    plain = {"ddp": ("none", ranks, 1), "fsdp": ("zero3", 1, ranks)}
    is_plain = layout == plain.get(strategy) and recomputed in ("none", "full")
    if min(sizes) < 1 or not is_plain:
        return None
    return StepAnchor(
        model=str(step.parameters.get("model")),
        strategy=strategy,
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        sequence_length=length,
        precision=str(step.parameters.get("precision")),
        world_size=ranks,
        activation_checkpointing=cast("ActivationCheckpointing", recomputed),
        threads=threads_of(step),
        step_time_s=step.median,
        low_s=step.quantile(0.1),
        high_s=step.quantile(0.9),
        source=_source(step),
    )


def _source(step: Measurement) -> str:
    """Return the origin of a measured step in words, with its date."""
    return f"measured by verify on {str(step.conditions.get('date', 'an unknown date'))[:20]}"


def with_measured_steps(
    cluster: Cluster, workload: AnyWorkload, measurements: tuple[Measurement, ...], program: str
) -> Cluster:
    """Return the cluster with the measured steps of the user's own program and of verified recipes.

    Steps of the user's own program do not apply to the reference workload.
    """
    is_own = program != REFERENCE_PROGRAM
    timed = with_own_steps(cluster, workload, measurements) if is_own else cluster
    return with_verified_steps(timed, workload, measurements, program)
