"""Records of warnings and failures of NCCL and RCCL."""

from probes.logs.events.log_record import Complaint, LogRecord


class NcclIbCompletionError(LogRecord, kw_only=True, tag="nccl.ib.completion-error"):
    """A work completion of InfiniBand or RoCE failed."""

    status: int
    """Value of `ibv_wc_status`."""
    vendor: int
    """The vendor's own number of the error."""
    opcode: int | str | None = None
    """Number or name of the request's operation."""
    peer: str | None = None
    """Address of the other side."""
    side: str | None = None
    """Kind of the request, such as `Send` or `Recv`, if the line names it."""
    local_gid: str | None = None
    remote_gid: str | None = None
    """The peer's GID."""
    hca: str | None = None


class NcclIbModifyQp(Complaint, kw_only=True, tag="nccl.ib.modify-qp"):
    """The state of a queue pair could not be changed."""

    errno: int | None = None
    hca: str | None = None
    state: str | None = None
    gid_index: int | None = None
    local_gid: str | None = None
    remote_gid: str | None = None
    """The peer's GID."""


class NcclIbRegistration(LogRecord, kw_only=True, tag="nccl.ib.registration"):
    """Memory could not be registered with an adapter."""

    call: str
    """Function that failed."""
    reason: str | None = None


class NcclIbCallFailed(LogRecord, kw_only=True, tag="nccl.ib.call-failed"):
    """A call of libibverbs failed."""

    call: str
    """Function that failed."""
    reason: str | None = None


class NcclIbAsync(LogRecord, kw_only=True, tag="nccl.ib.async"):
    """An adapter reports an asynchronous event."""

    event: str
    fatal: bool
    """True if the event is fatal."""
    hca: str | None = None
    port: int | None = None


class NcclIbCommunicatorFailed(LogRecord, kw_only=True, tag="nccl.ib.communicator-failed"):
    """A communicator failed because of a fatal error of its network."""

    function: str


class NcclIbMixedLinks(LogRecord, kw_only=True, tag="nccl.ib.mixed-links"):
    """Adapters of different link layers cannot be used together."""


class NcclIbDeviceUnusable(LogRecord, kw_only=True, tag="nccl.ib.device-unusable"):
    """An adapter cannot be used."""

    hca: str | None = None


class NcclConnectFailed(LogRecord, kw_only=True, tag="nccl.connect-failed"):
    """A connection to a peer failed."""

    peer: str | None = None
    """Address of the other side."""
    reason: str | None = None
    errno: int | None = None
    tries: int | None = None
    """Number of attempts."""


class NcclConnectRetry(Complaint, kw_only=True, tag="nccl.connect-retry"):
    """A connection to a peer failed and is tried again, which is usual at the start."""

    peer: str
    """Address of the other side."""
    tries: int
    """Number of attempts."""


class NcclInterfaceMissing(Complaint, kw_only=True, tag="nccl.interface-missing"):
    """No network interface has the requested name or kind."""


class NcclAddressFamily(Complaint, kw_only=True, tag="nccl.address-family"):
    """The family of an address is unknown."""


class NcclNameUnresolved(Complaint, kw_only=True, tag="nccl.name-unresolved"):
    """A host name has no address."""


class NcclAddressInUse(LogRecord, kw_only=True, tag="nccl.address-in-use"):
    """A port is in use."""


class NcclSocketWrongType(Complaint, kw_only=True, tag="nccl.socket-wrong-type"):
    """A connection came from an unexpected kind of socket."""

    actual: int
    """Received value."""
    expected: int
    """Expected value."""


class NcclSocketWrongMagic(Complaint, kw_only=True, tag="nccl.socket-wrong-magic"):
    """A connection came from a process outside this run."""


class NcclRemoteClosed(LogRecord, kw_only=True, tag="nccl.remote-closed"):
    """The other side closed the connection."""

    peer: str | None = None
    """Address of the other side."""
    reason: str | None = None


class NcclNranksMismatch(LogRecord, kw_only=True, tag="nccl.nranks-mismatch"):
    """Ranks disagree on the number of ranks."""

    expected: int
    """Expected value."""
    actual: int
    """Received value."""


class NcclRootMismatch(Complaint, kw_only=True, tag="nccl.root-mismatch"):
    """Ranks disagree on something other than the number of ranks."""


class NcclRankTwice(LogRecord, kw_only=True, tag="nccl.rank-twice"):
    """Two processes claim the same rank."""

    rank: int
    ranks: int
    """Ranks of the communicator."""


class NcclRasPortInUse(LogRecord, kw_only=True, tag="nccl.ras-port-in-use"):
    """The port of NCCL's own health service is in use, which does no harm."""


class NcclDuplicateGpu(LogRecord, kw_only=True, tag="nccl.duplicate-gpu"):
    """Two ranks use the same GPU."""

    rank_a: int | None = None
    rank_b: int | None = None
    bus: str | None = None


class NcclVersionMismatch(LogRecord, kw_only=True, tag="nccl.version-mismatch"):
    """Ranks use different versions of NCCL."""

    rank_a: int
    version_a: int
    """Version of the first rank."""
    rank_b: int
    version_b: int
    """Version of the second rank."""


class NcclMessageTruncated(LogRecord, kw_only=True, tag="nccl.message-truncated"):
    """Ranks disagree on the size of a message."""

    received: int | None = None
    expected: int | None = None


class NcclCollectiveMismatch(LogRecord, kw_only=True, tag="nccl.collective-mismatch"):
    """Ranks call different collectives."""

    rank: int


class NcclIpcFailed(Complaint, kw_only=True, tag="nccl.ipc-failed"):
    """Memory of a GPU cannot be shared between processes."""

    call: str
    """Function that failed."""


class NcclAlgoUnavailable(LogRecord, kw_only=True, tag="nccl.algo-unavailable"):
    """No allowed algorithm or protocol can run a collective."""

    function: str | None = None
    algorithm: str | None = None
    protocol: str | None = None


class NcclNetworkNotFound(LogRecord, kw_only=True, tag="nccl.network-not-found"):
    """The network that NCCL_NET names does not exist."""

    name: str


class NcclShm(LogRecord, kw_only=True, tag="nccl.shm"):
    """A segment of shared memory could not be created or used."""

    step: str | None = None
    path: str | None = None
    bytes: int | None = None
    reason: str | None = None


class NcclAllocationFailed(LogRecord, kw_only=True, tag="nccl.allocation-failed"):
    """Memory could not be allocated."""

    bytes: int | None = None


class NcclCudaError(LogRecord, kw_only=True, tag="nccl.cuda-error"):
    """A call of CUDA failed within NCCL."""

    code: int | None = None
    """Number of the error."""
    text: str | None = None
    file: str | None = None
    """Place in the source code."""
    error: int | None = None
    bytes: int | None = None
    actual: int | None = None
    """CUDA version of the driver as a number, if the driver is too old."""
    needed: int | None = None
    """CUDA version that NCCL requires, as a number."""


class NcclDriverOld(LogRecord, kw_only=True, tag="nccl.driver-old"):
    """The CUDA driver is too old for NCCL."""

    actual: int | None = None
    """CUDA version of the driver as a number."""
    needed: int | None = None
    """CUDA version that NCCL requires, as a number."""
    text: str | None = None


class NcclNvlsBind(LogRecord, kw_only=True, tag="nccl.nvls-bind"):
    """Memory could not be bound for NVLink SHARP."""

    error: int | None = None
    text: str | None = None
    bytes: int | None = None
    code: int | None = None
    """Number of the error."""
    file: str | None = None
    """Place in the source code."""


class NcclImex(LogRecord, kw_only=True, tag="nccl.imex"):
    """The service for NVLink between nodes runs but does not work."""

    clique_size: int
    """Number of GPUs in the clique."""


class NcclSharpFailed(Complaint, kw_only=True, tag="nccl.sharp-failed"):
    """SHARP does not start."""


class NcclProxyFailed(LogRecord, kw_only=True, tag="nccl.proxy-failed"):
    """An operation of NCCL's proxy thread failed."""

    operation: str
    from_rank: int | None = None
    """The rank that requested the operation."""
    code: int | None = None
    """Number of the error."""


class NcclTopologyInvalid(Complaint, kw_only=True, tag="nccl.topology-invalid"):
    """A topology file cannot be read."""


class NcclError(LogRecord, kw_only=True, tag="nccl.error"):
    """A function of NCCL returned an error."""

    code: int | None = None
    """1 CUDA, 2 system, 3 internal, 4 argument, 5 usage, 6 remote."""
    name: str | None = None
    file: str | None = None
    """Place in the source code."""


class NcclWarning(LogRecord, kw_only=True, tag="nccl.warning"):
    """Any other warning after which runs usually end."""

    message: str
    file: str
    """Place in the source code."""


class NcclNotice(LogRecord, kw_only=True, tag="nccl.notice"):
    """Any other warning after which runs usually continue."""

    message: str
    file: str
    """Place in the source code."""


class RocmGpuFault(LogRecord, kw_only=True, tag="rocm.gpu-fault"):
    """A fault of a GPU for which the ROCm runtime ended the program."""

    what: str
    """`hang`, `page fault`, or `exception` for any other reason."""
    node: int
    """Number of the GPU's KFD node, which is not the GPU's index because processors are counted first."""
    reason: str | None = None


class RocmSmiFailed(LogRecord, kw_only=True, tag="rocm.smi-failed"):
    """The management library of ROCm could not start within RCCL."""

    reason: str


class RasIncomplete(LogRecord, kw_only=True, tag="ras.incomplete"):
    """An error that the RAS service of NCCL or RCCL reports: `INCOMPLETE`, `DEAD` or `MISMATCH`."""

    status: str


class RasMissing(LogRecord, kw_only=True, tag="ras.missing"):
    """A process or rank that the RAS service cannot reach."""

    rank: int | None = None
    process: int | None = None
    node: str | None = None
    gpu: str | None = None


class RcclHipError(LogRecord, kw_only=True, tag="rccl.hip-error"):
    """A call of HIP failed within RCCL."""

    code: int | None = None
    """Number of the error."""
    text: str
    file: str | None = None
    """Place in the source code."""
