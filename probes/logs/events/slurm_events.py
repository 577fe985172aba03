"""Records of reports by Slurm, PBS and LSF in the output of a job."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord


class SlurmKilled(LogRecord, kw_only=True):
    """The scheduler ended a job or a step."""

    KIND: ClassVar[str] = "slurm.killed"
    reason: str
    """`time limit`, `preemption`, `node failure`, `task failure`, `signal`, `memory`, `requeue` or other
    words.
    """
    scope: str | None = None
    """`JOB` or `STEP`."""
    step: str | None = None
    node: str | None = None
    at: str | None = None


class SlurmOom(LogRecord, kw_only=True):
    """The limit of memory of a step was met."""

    KIND: ClassVar[str] = "slurm.oom"
    count: int | None = None
    step: str | None = None
    node: str | None = None
    tasks: str | None = None
    """Numbers of the tasks."""


class SlurmNodeFailure(LogRecord, kw_only=True):
    """A node failed."""

    KIND: ClassVar[str] = "slurm.node-failure"
    node: str


class SlurmUnreachable(Complaint, kw_only=True):
    """The controller of Slurm does not answer."""

    KIND: ClassVar[str] = "slurm.unreachable"


class SlurmTaskExit(LogRecord, kw_only=True):
    """A task ended with an exit code."""

    KIND: ClassVar[str] = "slurm.task-exit"
    node: str
    tasks: str
    """Numbers of the tasks."""
    exit_code: int


class SlurmTaskKilled(LogRecord, kw_only=True):
    """A task ended by a signal."""

    KIND: ClassVar[str] = "slurm.task-killed"
    node: str
    tasks: str
    """Numbers of the tasks."""
    reason: str
    """Name of the signal."""
    signal: int | None = None
    """Number or name of the signal."""


class SlurmStepAborted(LogRecord, kw_only=True):
    """A step was aborted, as an effect of something else."""

    KIND: ClassVar[str] = "slurm.step-aborted"


class SlurmStepTerminating(LogRecord, kw_only=True):
    """A step is being ended, as an effect of something else."""

    KIND: ClassVar[str] = "slurm.step-terminating"
    step: str


class SlurmLaunchFailed(Complaint, kw_only=True):
    """A task could not be started."""

    KIND: ClassVar[str] = "slurm.launch-failed"
    step: str | None = None
    node: str | None = None


class SlurmSubmitRefused(Complaint, kw_only=True):
    """A job was not accepted."""

    KIND: ClassVar[str] = "slurm.submit-refused"


class SlurmStepRefused(Complaint, kw_only=True):
    """No step of the job could be made."""

    KIND: ClassVar[str] = "slurm.step-refused"


class SlurmMpiFailed(Complaint, kw_only=True):
    """PMI or PMIx did not start."""

    KIND: ClassVar[str] = "slurm.mpi-failed"


class SlurmBindFailed(Complaint, kw_only=True):
    """Masks of CPUs or GPUs do not fit."""

    KIND: ClassVar[str] = "slurm.bind-failed"


class SlurmTmpdirReplaced(LogRecord, kw_only=True):
    """The folder for temporary files could not be made, and a task starts with another."""

    KIND: ClassVar[str] = "slurm.tmpdir-replaced"
    folder: str
