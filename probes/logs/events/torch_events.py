"""Records of torch.distributed and torchrun: watchdog, exceptions, stores, rendezvous, failed workers."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord


class TorchWatchdogTimeout(LogRecord, kw_only=True):
    """The watchdog saw a collective time out."""

    KIND: ClassVar[str] = "torch.watchdog-timeout"
    seq: int | None = None
    """Number in the sequence of collectives."""
    op: str | None = None
    numel_in: int | None = None
    """Elements that go in."""
    numel_out: int | None = None
    """Elements that come out."""
    timeout_ms: int | None = None
    ran_ms: int | None = None
    """Run time."""


class TorchWorkStatus(LogRecord, kw_only=True):
    """The progress of the process group of a rank."""

    KIND: ClassVar[str] = "torch.work-status"
    seq: int
    """Number of the collective at which it stands."""
    enqueued: int
    """Number of the last collective that was enqueued."""
    completed: int
    """Number of the last collective that was completed."""


class TorchDumpSignal(LogRecord, kw_only=True):
    """A rank asks for a dump of the flight recorder."""

    KIND: ClassVar[str] = "torch.dump-signal"
    from_rank: int | None = None
    """The rank from which it comes."""
    enqueued: int | None = None
    """Number of the last collective that was enqueued."""
    completed: int | None = None
    """Number of the last collective that was completed."""


class TorchWatchdogStuck(LogRecord, kw_only=True):
    """The watchdog itself hangs in CUDA or behind the interpreter's lock."""

    KIND: ClassVar[str] = "torch.watchdog-stuck"
    seconds: int | None = None


class TorchHeartbeatTimeout(LogRecord, kw_only=True):
    """The monitor of the watchdog's heartbeat timed out."""

    KIND: ClassVar[str] = "torch.heartbeat-timeout"


class TorchProcessDown(LogRecord, kw_only=True):
    """The process takes itself down after a failure."""

    KIND: ClassVar[str] = "torch.process-down"


class TorchWatchdogException(LogRecord, kw_only=True):
    """The watchdog ends with an exception."""

    KIND: ClassVar[str] = "torch.watchdog-exception"
    error: str


class TorchPeerAborted(LogRecord, kw_only=True):
    """Another rank aborted its communicators first."""

    KIND: ClassVar[str] = "torch.peer-aborted"
    from_rank: int
    """The rank from which it comes."""


class TorchDesyncRank(LogRecord, kw_only=True):
    """Ranks that parted from the others, by the report of TORCH_NCCL_DESYNC_DEBUG."""

    KIND: ClassVar[str] = "torch.desync-rank"
    ranks: str
    """Ranks, separated by commas."""
    state: str
    """`lag` (never joined the next collective), `missing` (never joined any) or `joined` (did not finish)."""
    seq: int | None = None
    """Number in the sequence of collectives."""


class TorchDesyncPlace(LogRecord, kw_only=True):
    """A place in that report's list of what each rank did last."""

    KIND: ClassVar[str] = "torch.desync-place"
    seq: int
    """Number in the sequence of collectives."""
    state: str
    """`started` or `finished`."""


class TorchDesyncCall(LogRecord, kw_only=True):
    """The collective that some ranks called at such a place."""

    KIND: ClassVar[str] = "torch.desync-call"
    ranks: str
    """Ranks, separated by commas."""
    state: str
    op: str


class TorchTraceMissing(LogRecord, kw_only=True):
    """Ranks whose dumps the analysis of flight recorders lacks."""

    KIND: ClassVar[str] = "torch.trace-missing"
    ranks: str
    """Ranks, separated by commas."""


class TorchTraceCulprit(Complaint, kw_only=True):
    """The rank that the analysis of flight recorders blames."""

    KIND: ClassVar[str] = "torch.trace-culprit"
    culprit: int


class TorchNcclError(LogRecord, kw_only=True):
    """An exception names the result of NCCL."""

    KIND: ClassVar[str] = "torch.nccl-error"
    error: str
    file: str | None = None
    """Place in the source code."""
    nccl: str | None = None
    """Version of NCCL."""
    operation: str | None = None


class TorchNcclResult(LogRecord, kw_only=True):
    """The line that explains a result of NCCL."""

    KIND: ClassVar[str] = "torch.nccl-result"
    code: str
    """`ncclSystemError` and the like."""


class TorchLastError(LogRecord, kw_only=True):
    """The last warning of NCCL, as an exception carries it."""

    KIND: ClassVar[str] = "torch.last-error"
    text: str


class TorchException(LogRecord, kw_only=True):
    """The last line of a Python traceback."""

    KIND: ClassVar[str] = "torch.exception"
    name: str
    """Class, with its module where the line names it."""
    message: str | None = None
    errno: int | None = None
    """Error number of Linux."""
    place: str | None = None
    """The innermost line of the program's own code: `train.py:98 in step`."""


class TorchIdExchangeFailed(Complaint, kw_only=True):
    """A rank did not find the NCCL id in the store."""

    KIND: ClassVar[str] = "torch.id-exchange-failed"
    rank: int
    from_rank: int
    """The rank from which it comes."""
    key: str
    """Key in the store."""


class TorchStoreTimeout(LogRecord, kw_only=True):
    """The store could not be reached in time."""

    KIND: ClassVar[str] = "torch.store-timeout"
    host: str | None = None
    port: int | None = None
    after: str | None = None
    """Duration of the attempts, with its unit."""


class TorchStoreRanksMissing(LogRecord, kw_only=True):
    """Not all ranks joined the store."""

    KIND: ClassVar[str] = "torch.store-ranks-missing"
    joined: int
    expected: int
    """Expected value."""
    after: int | None = None
    rank: int | None = None


class TorchStoreWait(LogRecord, kw_only=True):
    """A key was never set in the store."""

    KIND: ClassVar[str] = "torch.store-wait"
    keys: str | None = None
    """Keys in the store."""
    timeout_ms: int | None = None


class TorchStoreClosed(Complaint, kw_only=True):
    """The process with the store is gone."""

    KIND: ClassVar[str] = "torch.store-closed"


class TorchStoreWarning(Complaint, kw_only=True):
    """The process with the store is gone, as it is at the end of healthy runs too."""

    KIND: ClassVar[str] = "torch.store-warning"


class TorchAddressInUse(LogRecord, kw_only=True):
    """The port of the store is taken."""

    KIND: ClassVar[str] = "torch.address-in-use"
    port: int | None = None


class TorchNameUnresolved(LogRecord, kw_only=True):
    """A host name has no address."""

    KIND: ClassVar[str] = "torch.name-unresolved"
    host: str
    port: int
    family: str
    """`IPv4`, `IPv6` or `IPv4/IPv6`."""
    reason: str | None = None


class TorchConnectFailed(LogRecord, kw_only=True):
    """A connection to the store failed."""

    KIND: ClassVar[str] = "torch.connect-failed"
    host: str
    port: int
    reason: str | None = None


class TorchSocketWarning(LogRecord, kw_only=True):
    """An attempt to connect or listen that fails in healthy jobs too."""

    KIND: ClassVar[str] = "torch.socket-warning"
    host: str | None = None
    port: int | None = None
    family: str | None = None
    """Family of addresses."""
    reason: str | None = None


class TorchrunRendezvousConnection(LogRecord, kw_only=True):
    """An elastic agent cannot reach the rendezvous."""

    KIND: ClassVar[str] = "torchrun.rendezvous-connection"
    message: str | None = None


class TorchrunRendezvousTimeout(LogRecord, kw_only=True):
    """The elastic agents did not meet in time."""

    KIND: ClassVar[str] = "torchrun.rendezvous-timeout"
    message: str | None = None


class TorchrunRendezvousClosed(LogRecord, kw_only=True):
    """The rendezvous was closed."""

    KIND: ClassVar[str] = "torchrun.rendezvous-closed"
    message: str | None = None


class TorchrunRendezvousState(LogRecord, kw_only=True):
    """The state of the rendezvous is damaged."""

    KIND: ClassVar[str] = "torchrun.rendezvous-state"
    message: str | None = None


class TorchHeartbeatLost(LogRecord, kw_only=True):
    """A node no longer answers the rendezvous."""

    KIND: ClassVar[str] = "torch.heartbeat-lost"
    node: str


class TorchCollectiveMismatch(LogRecord, kw_only=True):
    """Ranks call different collectives, by TORCH_DISTRIBUTED_DEBUG=DETAIL."""

    KIND: ClassVar[str] = "torch.collective-mismatch"
    rank_a: int | None = None
    rank_b: int | None = None


class TorchMonitoredBarrier(LogRecord, kw_only=True):
    """Ranks that did not reach a monitored barrier."""

    KIND: ClassVar[str] = "torch.monitored-barrier"
    ranks: str
    """Ranks, separated by commas."""
    timeout_ms: int | None = None


class TorchDeviceGuess(LogRecord, kw_only=True):
    """torch guesses the GPU of a rank."""

    KIND: ClassVar[str] = "torch.device-guess"
    gpu: int
    rank: int | None = None


class TorchNoGpu(LogRecord, kw_only=True):
    """There is no GPU for ProcessGroupNCCL."""

    KIND: ClassVar[str] = "torch.no-gpu"


class TorchReductionUnfinished(LogRecord, kw_only=True):
    """A gradient was not reduced in the step before."""

    KIND: ClassVar[str] = "torch.reduction-unfinished"


class TorchNotDestroyed(LogRecord, kw_only=True):
    """The process group was not destroyed at the end."""

    KIND: ClassVar[str] = "torch.not-destroyed"


class TorchChildFailed(LogRecord, kw_only=True):
    """A worker that failed, by torchrun's report at the end."""

    KIND: ClassVar[str] = "torch.child-failed"
    exit_code: int
    root: bool
    """Whether it was the first that failed."""
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    signal: int | None = None
    """The number behind a negative exit code, or behind 128 + n."""
    pid: int | None = None
    error_file: str | None = None
    """Path of the error file."""
    text: int | str | None = None
    at: str | None = None


class TorchWorkerFailed(LogRecord, kw_only=True):
    """A worker failed, by the launcher's own line."""

    KIND: ClassVar[str] = "torch.worker-failed"
    exit_code: int | None = None
    local_rank: int | None = None
    rank: int | None = None
    pid: int | None = None
    signal: int | None = None
    """The number behind a negative exit code, or behind 128 + n."""
    name: str | None = None
    """Name of the signal."""


class TorchAgentSignal(LogRecord, kw_only=True):
    """The agent was asked to stop, by a scheduler or a person."""

    KIND: ClassVar[str] = "torch.agent-signal"
    signal: int | str
    """Number or name of the signal."""
    process: int | None = None


class TorchAgentStopping(LogRecord, kw_only=True):
    """The agent stops the workers that are left."""

    KIND: ClassVar[str] = "torch.agent-stopping"
    process: int
    signal: str | None = None
    """Number or name of the signal."""


class TorchAgentRestart(LogRecord, kw_only=True):
    """The agent starts the workers again."""

    KIND: ClassVar[str] = "torch.agent-restart"
    left: int | None = None
    """Number of attempts that are left."""


class TorchNoRecord(LogRecord, kw_only=True):
    """No worker wrote an error file."""

    KIND: ClassVar[str] = "torch.no-record"


class TorchWorkerFinished(LogRecord, kw_only=True):
    """A worker ended well, by DeepSpeed's launcher."""

    KIND: ClassVar[str] = "torch.worker-finished"
    pid: int
