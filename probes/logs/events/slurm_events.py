"""Records of reports by Slurm, PBS and LSF in the output of a job."""

from __future__ import annotations

from probes.logs.events.log_record import Complaint, LogRecord


class SlurmKilled(LogRecord, kw_only=True, tag="slurm.killed"):
    """The scheduler ended a job or a step."""

    reason: str
    """`time limit`, `preemption`, `node failure`, `task failure`, `signal`, `memory`, `requeue` or other
    words.
    """
    scope: str | None = None
    """`JOB` or `STEP`."""
    step: str | None = None
    node: str | None = None
    at: str | None = None


class SlurmOom(LogRecord, kw_only=True, tag="slurm.oom"):
    """The limit of memory of a step was met."""

    count: int | None = None
    step: str | None = None
    node: str | None = None
    tasks: str | None = None
    """Numbers of the tasks."""


class SlurmNodeFailure(LogRecord, kw_only=True, tag="slurm.node-failure"):
    """A node failed."""

    node: str


class SlurmUnreachable(Complaint, kw_only=True, tag="slurm.unreachable"):
    """The controller of Slurm does not answer."""


class SlurmTaskExit(LogRecord, kw_only=True, tag="slurm.task-exit"):
    """A task ended with an exit code."""

    node: str
    tasks: str
    """Numbers of the tasks."""
    exit_code: int


class SlurmTaskKilled(LogRecord, kw_only=True, tag="slurm.task-killed"):
    """A task ended by a signal."""

    node: str
    tasks: str
    """Numbers of the tasks."""
    reason: str
    """Name of the signal."""
    signal: int | None = None
    """Number or name of the signal."""


class SlurmStepAborted(LogRecord, kw_only=True, tag="slurm.step-aborted"):
    """A step was aborted, as an effect of something else."""


class SlurmStepTerminating(LogRecord, kw_only=True, tag="slurm.step-terminating"):
    """A step is being ended, as an effect of something else."""

    step: str


class SlurmLaunchFailed(Complaint, kw_only=True, tag="slurm.launch-failed"):
    """A task could not be started."""

    step: str | None = None
    node: str | None = None


class SlurmSubmitRefused(Complaint, kw_only=True, tag="slurm.submit-refused"):
    """A job was not accepted."""


class SlurmStepRefused(Complaint, kw_only=True, tag="slurm.step-refused"):
    """No step of the job could be made."""


class SlurmMpiFailed(Complaint, kw_only=True, tag="slurm.mpi-failed"):
    """PMI or PMIx did not start."""


class SlurmBindFailed(Complaint, kw_only=True, tag="slurm.bind-failed"):
    """Masks of CPUs or GPUs do not fit."""


class SlurmTmpdirReplaced(LogRecord, kw_only=True, tag="slurm.tmpdir-replaced"):
    """The folder for temporary files could not be made, and a task starts with another."""

    folder: str
