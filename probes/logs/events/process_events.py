"""Records of how processes continued and ended, as reported by the processes or by Slurm, PBS and LSF."""

from probes.logs.events.log_record import Complaint, LogRecord


class ProcessRecord(LogRecord, kw_only=True):
    """The base of records of one process."""

    place: str | None = None
    """The innermost line of the program's own code: `train.py:98 in step`."""


class ProcessFrame(LogRecord, kw_only=True, tag="process.frame"):
    """The innermost line of the program's own code in a traceback."""

    place: str
    """`train.py:98 in step`."""
    ends: int
    """Number of the traceback's last line."""


class ProcessTerminated(ProcessRecord, kw_only=True, tag="process.terminated"):
    """An uncaught C++ exception ended the process."""

    name: str | None = None
    """Class of the exception."""
    text: str | None = None


class ProcessWhat(ProcessRecord, kw_only=True, tag="process.what"):
    """The message of a C++ exception."""

    text: str


class ProcessSignal(ProcessRecord, kw_only=True, tag="process.signal"):
    """A process ended by a signal."""

    signal: int | None = None
    """Number of the signal."""
    name: str | None = None
    process: int | None = None


class ProcessOutOfMemory(ProcessRecord, kw_only=True, tag="process.out-of-memory"):
    """The memory of the host or of a container is used up."""

    scope: str | None = None
    """`container` if the container's limit was reached."""


class ProcessNoSpace(ProcessRecord, kw_only=True, tag="process.no-space"):
    """No space is left on a disk."""

    path: str | None = None


class ProcessTooManyFiles(ProcessRecord, kw_only=True, tag="process.too-many-files"):
    """The limit of open files is reached."""


class ProcessAddressInUse(ProcessRecord, kw_only=True, tag="process.address-in-use"):
    """A port is in use."""


class ProcessLoaderError(ProcessRecord, kw_only=True, tag="process.loader-error"):
    """A shared library, a symbol or a version of glibc is missing."""

    library: str | None = None
    """Path or name of the library."""
    symbol: str | None = None
    version: str | None = None


class ProcessInterrupted(ProcessRecord, kw_only=True, tag="process.interrupted"):
    """A person ended the program with Ctrl-C."""


class ProcessDiverged(ProcessRecord, kw_only=True, tag="process.diverged"):
    """A program ends because its loss is NaN or infinite."""


class ProcessUsage(ProcessRecord, kw_only=True, tag="process.usage"):
    """A program rejects its arguments."""

    reason: str


class TorchBusError(LogRecord, kw_only=True, tag="torch.bus-error"):
    """A data loader of torch ran out of /dev/shm."""

    shm: bool
    """True if shared memory was too small."""


class TorchWorkerKilled(LogRecord, kw_only=True, tag="torch.worker-killed"):
    """A worker of a data loader was killed."""

    child: int | None = None
    signal: str | None = None
    """Number or name of the signal."""


class MpiAbort(LogRecord, kw_only=True, tag="mpi.abort"):
    """A rank called MPI_Abort."""

    rank: int | None = None
    code: int | None = None
    """Number of the error."""


class MpiProcessExit(LogRecord, kw_only=True, tag="mpi.process-exit"):
    """A process that MPI started ended with an error."""

    rank: int | None = None
    node: str | None = None
    signal: int | None = None
    """Number of the signal."""


class MpiDaemonLost(LogRecord, kw_only=True, tag="mpi.daemon-lost"):
    """The connection to an MPI daemon on another host ended."""

    node: str | None = None


class MpiLaunchFailed(LogRecord, kw_only=True, tag="mpi.launch-failed"):
    """MPI cannot start its processes."""

    reason: str | None = None


class MpiNoTransport(LogRecord, kw_only=True, tag="mpi.no-transport"):
    """MPI finds no transport between its processes."""


class ProgramProgress(LogRecord, kw_only=True, tag="program.progress"):
    """Lines that count steps follow a failure, so the program continues."""

    after: int
    """Line number of the failure."""
    who: str
    """Evidence that the program continues.

    `process`: lines of the same rank. `log`: the lines name no rank. `many`: a hundred lines of progress.
    `reported`: the program reports that it tries again.
    """


class ProgramFinished(LogRecord, kw_only=True, tag="program.finished"):
    """A program reports that it ended well."""

    after: int
    """Line number of the last failure before this line, or 0."""


class TrainingCourse(LogRecord, kw_only=True, tag="training.course"):
    """Summary of the training steps that a log reports; this event comes at the end of the log."""

    step: int
    """Number of the last step."""
    steps: int | None = None
    """Number of all steps."""
    step_seconds: float | None = None
    """Median of the reported times of steps."""
    tflops_per_gpu: float | None = None
    """Median of the reported rates."""
    loss: float | None = None
    """The last loss."""
    finished: int
    """1 if the last reported step is the last of the training, or if a final summary follows."""


class TrainingNoNumber(LogRecord, kw_only=True, tag="training.no-number"):
    """The loss is NaN, or the norm of the gradients is NaN at a loss of 0."""

    value: str


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
    """A step reached its limit of memory."""

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
    """Number of the signal."""


class SlurmStepAborted(LogRecord, kw_only=True, tag="slurm.step-aborted"):
    """A step was aborted as an effect of another failure."""


class SlurmStepTerminating(LogRecord, kw_only=True, tag="slurm.step-terminating"):
    """A step is being ended as an effect of another failure."""

    step: str


class SlurmLaunchFailed(Complaint, kw_only=True, tag="slurm.launch-failed"):
    """A task could not be started."""

    step: str | None = None
    node: str | None = None


class SlurmSubmitRefused(Complaint, kw_only=True, tag="slurm.submit-refused"):
    """A job was not accepted."""


class SlurmStepRefused(Complaint, kw_only=True, tag="slurm.step-refused"):
    """No step of the job could be created."""


class SlurmMpiFailed(Complaint, kw_only=True, tag="slurm.mpi-failed"):
    """PMI or PMIx did not start."""


class SlurmBindFailed(Complaint, kw_only=True, tag="slurm.bind-failed"):
    """Binding masks of CPUs or GPUs do not fit the allocation."""


class SlurmTmpdirReplaced(LogRecord, kw_only=True, tag="slurm.tmpdir-replaced"):
    """The folder for temporary files could not be created; the task uses another folder."""

    folder: str
