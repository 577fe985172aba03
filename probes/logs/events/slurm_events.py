"""What Slurm, PBS and LSF report in the output of a job."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class SlurmKilled(LogRecord, frozen=True, kw_only=True):
    """The scheduler ended a job or a step."""

    KIND: ClassVar[str] = "slurm.killed"
    reason: str
    """`time limit`, `preemption`, `node failure`, `task failure`, `signal`, `memory`, `requeue` or its own
    words.
    """
    scope: str | None = None
    """`JOB` or `STEP`."""
    step: str | None = None
    node: str | None = None
    at: str | None = None


class SlurmOom(LogRecord, frozen=True, kw_only=True):
    """The limit of memory of a step was met."""

    KIND: ClassVar[str] = "slurm.oom"
    count: int | None = None
    step: str | None = None
    node: str | None = None
    tasks: str | None = None
    """Numbers of the tasks."""


class SlurmNodeFailure(LogRecord, frozen=True, kw_only=True):
    """A node failed."""

    KIND: ClassVar[str] = "slurm.node-failure"
    node: str


class SlurmUnreachable(LogRecord, frozen=True, kw_only=True):
    """The controller of Slurm does not answer."""

    KIND: ClassVar[str] = "slurm.unreachable"
    reason: str


class SlurmTaskExit(LogRecord, frozen=True, kw_only=True):
    """A task ended with an exit code."""

    KIND: ClassVar[str] = "slurm.task-exit"
    node: str
    tasks: str
    """Numbers of the tasks."""
    exit_code: int


class SlurmTaskKilled(LogRecord, frozen=True, kw_only=True):
    """A task ended by a signal."""

    KIND: ClassVar[str] = "slurm.task-killed"
    node: str
    tasks: str
    """Numbers of the tasks."""
    reason: str
    """Name of the signal."""
    signal: int | None = None
    """Number or name of the signal."""


class SlurmStepAborted(LogRecord, frozen=True, kw_only=True):
    """A step was aborted, as an effect of something else."""

    KIND: ClassVar[str] = "slurm.step-aborted"


class SlurmStepTerminating(LogRecord, frozen=True, kw_only=True):
    """A step is being ended, as an effect of something else."""

    KIND: ClassVar[str] = "slurm.step-terminating"
    step: str


class SlurmLaunchFailed(LogRecord, frozen=True, kw_only=True):
    """A task could not be started."""

    KIND: ClassVar[str] = "slurm.launch-failed"
    reason: str
    step: str | None = None
    node: str | None = None


class SlurmSubmitRefused(LogRecord, frozen=True, kw_only=True):
    """A job was not accepted."""

    KIND: ClassVar[str] = "slurm.submit-refused"
    reason: str


class SlurmStepRefused(LogRecord, frozen=True, kw_only=True):
    """No step of the job could be made."""

    KIND: ClassVar[str] = "slurm.step-refused"
    reason: str


class SlurmMpiFailed(LogRecord, frozen=True, kw_only=True):
    """PMI or PMIx did not start."""

    KIND: ClassVar[str] = "slurm.mpi-failed"
    reason: str


class SlurmBindFailed(LogRecord, frozen=True, kw_only=True):
    """Masks of CPUs or GPUs do not fit."""

    KIND: ClassVar[str] = "slurm.bind-failed"
    reason: str


class SlurmTmpdirReplaced(LogRecord, frozen=True, kw_only=True):
    """The folder for temporary files could not be made, and a task starts with another."""

    KIND: ClassVar[str] = "slurm.tmpdir-replaced"
    folder: str
