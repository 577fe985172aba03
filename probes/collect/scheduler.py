"""Collect the batch job from the environment, and the batch system of this machine from its files."""

from __future__ import annotations

from probes.base.evidence import environment_ref, file_ref
from probes.base.record import DEEP_ONLY, EvidenceRef, Reason, Record, Unknown, first_unknown, map_known
from probes.collect.collecting import CollectOptions
from probes.facts import Scheduler, State
from probes.parsers.host.version_outputs import slurm_version
from probes.sources.base import Source, read_text


class _Kind(Record, kw_only=True):
    kind: str
    job_id: str
    node_counts: tuple[str, ...] = ()
    """Variables that may hold the number of nodes, best first."""


_KINDS = (
    _Kind(kind="slurm", job_id="SLURM_JOB_ID", node_counts=("SLURM_JOB_NUM_NODES", "SLURM_NNODES")),
    _Kind(kind="pbs", job_id="PBS_JOBID", node_counts=("PBS_NUM_NODES",)),
    _Kind(kind="lsf", job_id="LSB_JOBID"),
    _Kind(kind="flux", job_id="FLUX_JOB_ID", node_counts=("FLUX_JOB_NNODES",)),
)
"""Variables of each batch system.

Sources: Slurm 22.05, sbatch(1); IBM's LSF reference, environment variables set for job execution; flux-core,
src/shell/task.c; those of PBS as used by job scripts for Torque. Read 2026-11.
"""
_SLURM_FOLDERS = ("/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf")
_WANTED = (
    "ProctrackType", "TaskPlugin", "PropagateResourceLimits", "PropagateResourceLimitsExcept",
    "SelectType", "SelectTypeParameters", "GresTypes", "HealthCheckProgram", "PrologFlags",
    "LaunchParameters", "TopologyPlugin",
)  # fmt: skip
_WANTED_OF_GROUPS = ("ConstrainDevices", "ConstrainCores", "ConstrainRAMSpace", "CgroupPlugin")
_SLURMD = ("slurmd", "-V")
_HOSTNAME = "/proc/sys/kernel/hostname"


class _System(Record, kw_only=True):
    """Settings in the files of the batch system."""

    settings: tuple[State, ...] | Unknown
    gpus: int | Unknown | None
    is_there: bool
    evidence: tuple[EvidenceRef, ...] = ()


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `scheduler`."""
    kind, job_id, count, evidence = _job(source)
    system = _slurm(source)
    return {
        "scheduler": Scheduler(
            kind=kind,
            job_id=job_id,
            node_count=count,
            version=_version(source, options, has_slurm=system.is_there),
            settings=system.settings,
            gpus_of_node=system.gpus,
            evidence=(*evidence, *system.evidence),
        )
    }


def _job(
    source: Source,
) -> tuple[str | Unknown | None, str | Unknown | None, int | Unknown | None, tuple[EvidenceRef, ...]]:
    """Return kind, id and number of nodes of the job, with evidence."""
    ids = [(row, source.env(row.job_id)) for row in _KINDS]
    for row, job_id in ids:
        if isinstance(job_id, str):
            count, evidence = _node_count(source, row)
            return row.kind, job_id, count, (environment_ref(row.job_id), *evidence)
    unknown = first_unknown(*(job_id for _, job_id in ids))
    refs = () if unknown else tuple(environment_ref(row.job_id) for row in _KINDS)
    return unknown, unknown, unknown, refs


def _node_count(source: Source, row: _Kind) -> tuple[int | Unknown, tuple[EvidenceRef, ...]]:
    for name in row.node_counts:
        value = source.env(name)
        if isinstance(value, str) and value.isdecimal():
            return int(value), (environment_ref(name),)
    return Unknown(Reason.NOT_SUPPORTED, f"{row.kind} does not state the number of nodes"), ()


def _version(source: Source, options: CollectOptions, *, has_slurm: bool) -> str | Unknown | None:
    """Return the version of the node's daemon; None if no batch system is set up here.

    The daemon states its version without a network request.
    """
    if not has_slurm:
        return None
    if not options.deep:
        return DEEP_ONLY
    return map_known(source.run(_SLURMD).text(), slurm_version)


def _slurm(source: Source) -> _System:
    """Return the settings of the first slurm.conf that exists.

    If there is none, there are no settings and `gpus` is None.
    """
    path = source.env("SLURM_CONF")
    named = (path.rpartition("/")[0],) if isinstance(path, str) and path.startswith("/") else ()
    unknown: Unknown | None = None
    for folder in (*named, *_SLURM_FOLDERS):
        text = read_text(source, f"{folder}/slurm.conf")
        if isinstance(text, Unknown):
            unknown = unknown or (text if text.reason is not Reason.TOOL_MISSING else None)
            continue
        # Most machines have no Slurm.
        from probes.parsers.host.slurm_conf import gpus_of_node, settings_of  # noqa: PLC0415

        settings = settings_of(text, _WANTED)
        evidence = [file_ref(f"{folder}/slurm.conf")]
        groups = read_text(source, f"{folder}/cgroup.conf")
        if not isinstance(groups, Unknown):
            settings |= settings_of(groups, _WANTED_OF_GROUPS)
            evidence.append(file_ref(f"{folder}/cgroup.conf"))
        host = read_text(source, _HOSTNAME)
        gpus = host if isinstance(host, Unknown) else gpus_of_node(text, host.partition(".")[0])
        return _System(
            settings=tuple(State(name=name, value=value) for name, value in settings.items()),
            gpus=Unknown(Reason.NOT_RECORDED, "no line of slurm.conf is about this host")
            if gpus is None
            else gpus,
            is_there=True,
            evidence=tuple(evidence),
        )
    return _System(settings=unknown or (), gpus=unknown, is_there=unknown is not None)
