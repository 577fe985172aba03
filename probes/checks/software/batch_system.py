"""Check that the batch system leaves training its limits and makes all GPUs visible.

Source: slurm.conf(5), PropagateResourceLimits; NVIDIA/nccl#1066 and open-mpi/ompi#11949 (GPUs bound to single
tasks do not see each other); gres.conf(5).
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.facts import Gpu, state_of
from probes.judging.environment_values import setting, variables_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

LIMITS = Judge(
    check_id="scheduler-limits",
    why="The limits of the shell that submits replace those of the node: RDMA then fails in jobs only.",
)
BINDING = Judge(
    check_id="scheduler-binding",
    why="A task that sees only its own GPU cannot use NVLink to the others: NCCL copies through host memory.",
)
GPUS = Judge(
    check_id="scheduler-gpus",
    why="GPUs that the batch system does not know of lie idle; those it misses drain the node.",
)
_NO_BINDING = ("none", "verbose,none", "quiet,none")


def scheduler_limits(evidence: Evidence) -> Finding:
    batch = evidence.facts.scheduler
    if isinstance(batch.settings, Unknown):
        return LIMITS.undetermined(
            HOST, batch.settings, what="the settings of the batch system", evidence=batch.evidence
        )
    if not batch.settings:
        return LIMITS.skipped(HOST, "no batch system is set up here")
    if evidence.facts.nics == ():
        return LIMITS.skipped(HOST, "this machine has no RDMA port")
    passes = (state_of(batch.settings, "PropagateResourceLimits") or "ALL").upper().split(",")
    kept = (state_of(batch.settings, "PropagateResourceLimitsExcept") or "").upper().split(",")
    if "MEMLOCK" in kept or "ALL" in kept or not {"ALL", "MEMLOCK"} & set(passes):
        return LIMITS.passed(HOST, "jobs keep the node's own limit of locked memory", evidence=batch.evidence)
    if kept != [""]:
        return _propagates("PropagateResourceLimitsExcept without MEMLOCK", evidence)
    return _propagates(f"PropagateResourceLimits={','.join(passes)}", evidence)


def _propagates(observed: str, evidence: Evidence) -> Finding:
    return LIMITS.warned(
        HOST,
        "jobs take the limits of the shell that submits them",
        expected="PropagateResourceLimitsExcept=MEMLOCK",
        observed=observed,
        remedy=Remedy(
            text="Set it in slurm.conf, and LimitMEMLOCK=infinity for slurmd.",
            command="scontrol reconfigure",
            needs_root=True,
        ),
        evidence=evidence.facts.scheduler.evidence,
    )


def scheduler_binding(evidence: Evidence) -> Iterator[Finding]:
    batch = evidence.facts.scheduler
    if isinstance(batch.kind, Unknown):
        yield BINDING.undetermined(HOST, batch.kind, what="whether this is a job", evidence=batch.evidence)
        return
    if batch.kind != "slurm":
        yield BINDING.skipped(HOST, "this is no job of Slurm")
        return
    variables = yield from variables_of(BINDING, evidence)
    if variables is None:
        return
    bound = []
    if "SLURM_GPUS_PER_TASK" in variables:
        bound.append(variables["SLURM_GPUS_PER_TASK"])
    if "SLURM_GPU_BIND" in variables and variables["SLURM_GPU_BIND"].value.lower() not in _NO_BINDING:
        bound.append(variables["SLURM_GPU_BIND"])
    if bound:
        yield BINDING.warned(
            HOST,
            "Slurm shows each task only its own GPU",
            expected="--gpus-per-node, with --gpu-bind=none",
            observed=", ".join(map(setting, bound)),
            remedy=Remedy(text="Ask for GPUs by node, and let every rank choose by its local number."),
            evidence=tuple(ref for variable in bound for ref in variable.evidence),
        )
    else:
        yield BINDING.passed(HOST, "tasks see the GPUs of each other", evidence=batch.evidence)


@on_gpus(GPUS)
def scheduler_gpus(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    batch = evidence.facts.scheduler
    configured = batch.gpus_of_node
    if configured is None or (isinstance(configured, Unknown) and batch.settings == ()):
        return GPUS.skipped(HOST, "no batch system is set up here")
    if isinstance(configured, Unknown):
        return GPUS.undetermined(
            HOST, configured, what="the GPUs that the batch system knows of", evidence=batch.evidence
        )
    if known(batch.kind) and batch.kind is not None:
        return GPUS.skipped(HOST, "a job sees its own GPUs only")
    if configured == len(gpus):
        return GPUS.passed(
            HOST, "the batch system knows all GPUs", observed=str(configured), evidence=batch.evidence
        )
    return GPUS.warned(
        HOST,
        "the batch system counts other GPUs than there are",
        expected=f"Gres=gpu:{len(gpus)}",
        observed=f"{configured} in slurm.conf, {len(gpus)} here",
        remedy=Remedy(
            text="Where a GPU is lost, see gpu-count; else correct Gres in slurm.conf and gres.conf.",
            needs_root=True,
        ),
        evidence=batch.evidence,
    )
