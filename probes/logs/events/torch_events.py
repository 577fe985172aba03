"""Records of torch.distributed and torchrun: watchdog, exceptions, stores, rendezvous, failed workers."""

from probes.logs.events.log_record import Complaint, LogRecord


class TorchWatchdogTimeout(LogRecord, kw_only=True, tag="torch.watchdog-timeout"):
    """The watchdog reports that a collective timed out."""

    seq: int | None = None
    """Sequence number of the collective."""
    op: str | None = None
    numel_in: int | None = None
    """Number of input elements."""
    numel_out: int | None = None
    """Number of output elements."""
    timeout_ms: int | None = None
    ran_ms: int | None = None
    """Duration of the collective in milliseconds."""


class TorchWorkStatus(LogRecord, kw_only=True, tag="torch.work-status"):
    """The progress of the process group of a rank."""

    seq: int
    """Sequence number of the collective for which the rank waits."""
    enqueued: int
    """Sequence number of the last collective that was enqueued."""
    completed: int
    """Sequence number of the last collective that was completed."""


class TorchDumpSignal(LogRecord, kw_only=True, tag="torch.dump-signal"):
    """A rank requests a dump of the flight recorder."""

    from_rank: int | None = None
    """The rank that sent the signal."""
    enqueued: int | None = None
    """Sequence number of the last collective that was enqueued."""
    completed: int | None = None
    """Sequence number of the last collective that was completed."""


class TorchWatchdogStuck(LogRecord, kw_only=True, tag="torch.watchdog-stuck"):
    """The watchdog itself hangs, in CUDA or while it waits for Python's global interpreter lock."""

    seconds: int | None = None


class TorchHeartbeatTimeout(LogRecord, kw_only=True, tag="torch.heartbeat-timeout"):
    """The monitor of the watchdog's heartbeat timed out."""


class TorchProcessDown(LogRecord, kw_only=True, tag="torch.process-down"):
    """The process ends itself after a failure."""


class TorchWatchdogException(LogRecord, kw_only=True, tag="torch.watchdog-exception"):
    """The watchdog ends with an exception."""

    error: str


class TorchPeerAborted(LogRecord, kw_only=True, tag="torch.peer-aborted"):
    """Another rank aborted its communicators first."""

    from_rank: int
    """The rank that aborted."""


class TorchDesyncRank(LogRecord, kw_only=True, tag="torch.desync-rank"):
    """Ranks that differ from the others, from the report of TORCH_NCCL_DESYNC_DEBUG."""

    ranks: str
    """Ranks, separated by commas."""
    state: str
    """`lag` (never joined the next collective), `missing` (joined none) or `joined` (did not finish one)."""
    seq: int | None = None
    """Sequence number of the collective."""


class TorchDesyncPlace(LogRecord, kw_only=True, tag="torch.desync-place"):
    """A position in the list of last calls, from the report of TORCH_NCCL_DESYNC_DEBUG."""

    seq: int
    """Sequence number of the collective."""
    state: str
    """`started` or `finished`."""


class TorchDesyncCall(LogRecord, kw_only=True, tag="torch.desync-call"):
    """The collective that some ranks called at a position in the list of last calls."""

    ranks: str
    """Ranks, separated by commas."""
    state: str
    op: str


class TorchTraceMissing(LogRecord, kw_only=True, tag="torch.trace-missing"):
    """Ranks whose flight-recorder dumps are missing in the analysis."""

    ranks: str
    """Ranks, separated by commas."""


class TorchTraceCulprit(Complaint, kw_only=True, tag="torch.trace-culprit"):
    """The rank that the analysis of flight-recorder dumps calls the culprit."""

    culprit: int


class TorchNcclError(LogRecord, kw_only=True, tag="torch.nccl-error"):
    """An exception contains an error result of NCCL."""

    error: str
    file: str | None = None
    """Place in the source code."""
    nccl: str | None = None
    """Version of NCCL."""
    operation: str | None = None


class TorchNcclResult(LogRecord, kw_only=True, tag="torch.nccl-result"):
    """The line that explains a result of NCCL."""

    code: str
    """`ncclSystemError` or another result."""


class TorchLastError(LogRecord, kw_only=True, tag="torch.last-error"):
    """The last warning of NCCL, quoted by an exception."""

    text: str


class TorchException(LogRecord, kw_only=True, tag="torch.exception"):
    """The last line of a Python traceback."""

    name: str
    """Class, with its module if the line names the module."""
    message: str | None = None
    errno: int | None = None
    """Error number of Linux."""
    place: str | None = None
    """The innermost line of the program's own code: `train.py:98 in step`."""


class TorchIdExchangeFailed(Complaint, kw_only=True, tag="torch.id-exchange-failed"):
    """A rank did not find the NCCL id in the store."""

    rank: int
    from_rank: int
    """The rank that should provide the id."""
    key: str
    """Key in the store."""


class TorchStoreTimeout(LogRecord, kw_only=True, tag="torch.store-timeout"):
    """The store could not be reached in time."""

    host: str | None = None
    port: int | None = None
    after: str | None = None
    """Duration of the attempts, with its unit."""


class TorchStoreRanksMissing(LogRecord, kw_only=True, tag="torch.store-ranks-missing"):
    """Not all ranks joined the store."""

    joined: int
    expected: int
    """Expected value."""
    after: int | None = None
    rank: int | None = None


class TorchStoreWait(LogRecord, kw_only=True, tag="torch.store-wait"):
    """A key was never set in the store."""

    keys: str | None = None
    """Keys in the store."""
    timeout_ms: int | None = None


class TorchStoreClosed(Complaint, kw_only=True, tag="torch.store-closed"):
    """The process that serves the store has ended."""


class TorchStoreWarning(Complaint, kw_only=True, tag="torch.store-warning"):
    """The process that serves the store has ended, which also happens at the end of healthy runs."""


class TorchAddressInUse(LogRecord, kw_only=True, tag="torch.address-in-use"):
    """The port of the store is in use."""

    port: int | None = None


class TorchNameUnresolved(LogRecord, kw_only=True, tag="torch.name-unresolved"):
    """A host name has no address."""

    host: str
    port: int
    family: str
    """`IPv4`, `IPv6` or `IPv4/IPv6`."""
    reason: str | None = None


class TorchConnectFailed(LogRecord, kw_only=True, tag="torch.connect-failed"):
    """A connection to the store failed."""

    host: str
    port: int
    reason: str | None = None


class TorchSocketWarning(LogRecord, kw_only=True, tag="torch.socket-warning"):
    """A failed attempt to connect or listen, which also occurs in healthy jobs."""

    host: str | None = None
    port: int | None = None
    family: str | None = None
    """Family of addresses."""
    reason: str | None = None


class TorchrunRendezvousConnection(LogRecord, kw_only=True, tag="torchrun.rendezvous-connection"):
    """An elastic agent cannot reach the rendezvous."""

    message: str | None = None


class TorchrunRendezvousTimeout(LogRecord, kw_only=True, tag="torchrun.rendezvous-timeout"):
    """The elastic agents did not meet in time."""

    message: str | None = None


class TorchrunRendezvousClosed(LogRecord, kw_only=True, tag="torchrun.rendezvous-closed"):
    """The rendezvous was closed."""

    message: str | None = None


class TorchrunRendezvousState(LogRecord, kw_only=True, tag="torchrun.rendezvous-state"):
    """The state of the rendezvous is damaged."""

    message: str | None = None


class TorchHeartbeatLost(LogRecord, kw_only=True, tag="torch.heartbeat-lost"):
    """A node no longer answers the rendezvous."""

    node: str


class TorchCollectiveMismatch(LogRecord, kw_only=True, tag="torch.collective-mismatch"):
    """Ranks call different collectives, according to TORCH_DISTRIBUTED_DEBUG=DETAIL."""

    rank_a: int | None = None
    rank_b: int | None = None


class TorchMonitoredBarrier(LogRecord, kw_only=True, tag="torch.monitored-barrier"):
    """Ranks that did not reach a monitored barrier."""

    ranks: str
    """Ranks, separated by commas."""
    timeout_ms: int | None = None


class TorchDeviceGuess(LogRecord, kw_only=True, tag="torch.device-guess"):
    """torch guesses the GPU of a rank."""

    gpu: int
    rank: int | None = None


class TorchNoGpu(LogRecord, kw_only=True, tag="torch.no-gpu"):
    """ProcessGroupNCCL finds no GPU."""


class TorchReductionUnfinished(LogRecord, kw_only=True, tag="torch.reduction-unfinished"):
    """A gradient was not reduced in the previous step."""


class TorchNotDestroyed(LogRecord, kw_only=True, tag="torch.not-destroyed"):
    """The process group was not destroyed at the end."""


class TorchChildFailed(LogRecord, kw_only=True, tag="torch.child-failed"):
    """A worker that failed, from torchrun's report at the end."""

    exit_code: int
    root: bool
    """True if this worker failed first."""
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    signal: int | None = None
    """Signal number n, from an exit code of -n or 128 + n."""
    pid: int | None = None
    error_file: str | None = None
    """Path of the error file."""
    text: int | str | None = None
    at: str | None = None


class TorchWorkerFailed(LogRecord, kw_only=True, tag="torch.worker-failed"):
    """A worker failed, from a line of the launcher."""

    exit_code: int | None = None
    local_rank: int | None = None
    rank: int | None = None
    pid: int | None = None
    signal: int | None = None
    """Signal number n, from an exit code of -n or 128 + n."""
    name: str | None = None
    """Name of the signal."""


class TorchAgentSignal(LogRecord, kw_only=True, tag="torch.agent-signal"):
    """A scheduler or a person stopped the agent."""

    signal: int | str
    """Number or name of the signal."""
    process: int | None = None


class TorchAgentStopping(LogRecord, kw_only=True, tag="torch.agent-stopping"):
    """The agent stops the remaining workers."""

    process: int
    signal: str | None = None
    """Number or name of the signal."""


class TorchAgentRestart(LogRecord, kw_only=True, tag="torch.agent-restart"):
    """The agent starts the workers again."""

    left: int | None = None
    """Number of remaining attempts."""


class TorchNoRecord(LogRecord, kw_only=True, tag="torch.no-record"):
    """No worker wrote an error file."""


class TorchWorkerFinished(LogRecord, kw_only=True, tag="torch.worker-finished"):
    """A worker ended well, as DeepSpeed's launcher reports."""

    pid: int
