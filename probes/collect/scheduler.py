"""The batch job around this process, by its environment."""

from __future__ import annotations

from probes.collecting import CollectOptions
from probes.evidence import environment_ref
from probes.facts import Scheduler
from probes.record import EvidenceRef, Reason, Record, Unknown
from probes.sources.base import Source


class _Kind(Record, kw_only=True):
    kind: str
    job_id: str
    node_counts: tuple[str, ...] = ()
    """Variables that may hold it, best first."""


_KINDS = (
    _Kind(kind="slurm", job_id="SLURM_JOB_ID", node_counts=("SLURM_JOB_NUM_NODES", "SLURM_NNODES")),
    _Kind(kind="pbs", job_id="PBS_JOBID", node_counts=("PBS_NUM_NODES",)),
    _Kind(kind="lsf", job_id="LSB_JOBID"),
    _Kind(kind="flux", job_id="FLUX_JOB_ID", node_counts=("FLUX_JOB_NNODES",)),
)
"""Slurm 22.05, sbatch(1); IBM's LSF reference, environment variables set for job execution; flux-core, src/shell/task.c; those
of PBS as job scripts for Torque use them. Read 2026-11."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`scheduler`."""
    ids = [(row, source.env(row.job_id)) for row in _KINDS]
    for row, job_id in ids:
        if isinstance(job_id, str):
            count, evidence = _node_count(source, row)
            evidence = (environment_ref(row.job_id), *evidence)
            return {"scheduler": Scheduler(kind=row.kind, job_id=job_id, node_count=count, evidence=evidence)}
    unknown = next((job_id for _, job_id in ids if isinstance(job_id, Unknown)), None)
    looked = () if unknown else tuple(environment_ref(row.job_id) for row in _KINDS)
    return {"scheduler": Scheduler(kind=unknown, job_id=unknown, node_count=unknown, evidence=looked)}


def _node_count(source: Source, row: _Kind) -> tuple[int | Unknown, tuple[EvidenceRef, ...]]:
    for name in row.node_counts:
        value = source.env(name)
        if isinstance(value, str) and value.isdecimal():
            return int(value), (environment_ref(name),)
    return Unknown(Reason.NOT_SUPPORTED, f"{row.kind} does not state the number of nodes"), ()
