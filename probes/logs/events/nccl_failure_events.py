"""Records of warnings and failures of NCCL and RCCL."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord


class NcclIbCompletionError(LogRecord, kw_only=True):
    """A work completion of InfiniBand or RoCE failed."""

    KIND: ClassVar[str] = "nccl.ib.completion-error"
    status: int
    """Number of `ibv_wc_status`."""
    vendor: int
    """The vendor's own number of the error."""
    opcode: int | str | None = None
    """Kind of request."""
    peer: str | None = None
    """Address of the other side."""
    side: str | None = None
    """Side of the connection."""
    local_gid: str | None = None
    remote_gid: str | None = None
    """The peer's GID."""
    hca: str | None = None


class NcclIbModifyQp(Complaint, kw_only=True):
    """The state of a queue pair could not be changed."""

    KIND: ClassVar[str] = "nccl.ib.modify-qp"
    errno: int | None = None
    hca: str | None = None
    state: str | None = None
    gid_index: int | None = None
    local_gid: str | None = None
    remote_gid: str | None = None
    """The peer's GID."""


class NcclIbRegistration(LogRecord, kw_only=True):
    """Memory could not be registered with an adapter."""

    KIND: ClassVar[str] = "nccl.ib.registration"
    call: str
    """Function that failed."""
    reason: str | None = None


class NcclIbCallFailed(LogRecord, kw_only=True):
    """A call of libibverbs failed."""

    KIND: ClassVar[str] = "nccl.ib.call-failed"
    call: str
    """Function that failed."""
    reason: str | None = None


class NcclIbAsync(LogRecord, kw_only=True):
    """An adapter reports an event by itself."""

    KIND: ClassVar[str] = "nccl.ib.async"
    event: str
    fatal: bool
    """Whether it ends the run."""
    hca: str | None = None
    port: int | None = None


class NcclIbCommunicatorFailed(LogRecord, kw_only=True):
    """A communicator met a fatal error of its network."""

    KIND: ClassVar[str] = "nccl.ib.communicator-failed"
    function: str


class NcclIbMixedLinks(LogRecord, kw_only=True):
    """Adapters of different link layers cannot be used together."""

    KIND: ClassVar[str] = "nccl.ib.mixed-links"


class NcclIbDeviceUnusable(LogRecord, kw_only=True):
    """An adapter cannot be used."""

    KIND: ClassVar[str] = "nccl.ib.device-unusable"
    hca: str | None = None


class NcclConnectFailed(LogRecord, kw_only=True):
    """A connection to a peer failed."""

    KIND: ClassVar[str] = "nccl.connect-failed"
    peer: str | None = None
    """Address of the other side."""
    reason: str | None = None
    errno: int | None = None
    tries: int | None = None
    """Number of attempts."""


class NcclConnectRetry(Complaint, kw_only=True):
    """A connection to a peer failed and is tried again, which is usual at the start."""

    KIND: ClassVar[str] = "nccl.connect-retry"
    peer: str
    """Address of the other side."""
    tries: int
    """Number of attempts."""


class NcclInterfaceMissing(Complaint, kw_only=True):
    """There is no network interface of the name or kind that is asked for."""

    KIND: ClassVar[str] = "nccl.interface-missing"


class NcclAddressFamily(Complaint, kw_only=True):
    """An address is of no known family."""

    KIND: ClassVar[str] = "nccl.address-family"


class NcclNameUnresolved(Complaint, kw_only=True):
    """A host name has no address."""

    KIND: ClassVar[str] = "nccl.name-unresolved"


class NcclAddressInUse(LogRecord, kw_only=True):
    """A port is taken."""

    KIND: ClassVar[str] = "nccl.address-in-use"


class NcclSocketWrongType(Complaint, kw_only=True):
    """A connection came from something else than what was expected."""

    KIND: ClassVar[str] = "nccl.socket-wrong-type"
    actual: int
    """Value that was received instead."""
    expected: int
    """Expected value."""


class NcclSocketWrongMagic(Complaint, kw_only=True):
    """A connection came from something that is no rank of this run."""

    KIND: ClassVar[str] = "nccl.socket-wrong-magic"


class NcclRemoteClosed(LogRecord, kw_only=True):
    """The other side closed the connection."""

    KIND: ClassVar[str] = "nccl.remote-closed"
    peer: str | None = None
    """Address of the other side."""
    reason: str | None = None


class NcclNranksMismatch(LogRecord, kw_only=True):
    """Ranks disagree on how many they are."""

    KIND: ClassVar[str] = "nccl.nranks-mismatch"
    expected: int
    """Expected value."""
    actual: int
    """Value that was received instead."""


class NcclRootMismatch(Complaint, kw_only=True):
    """Ranks disagree on something else than their number."""

    KIND: ClassVar[str] = "nccl.root-mismatch"


class NcclRankTwice(LogRecord, kw_only=True):
    """Two processes call themselves the same rank."""

    KIND: ClassVar[str] = "nccl.rank-twice"
    rank: int
    ranks: int
    """Ranks of the communicator."""


class NcclRasPortInUse(LogRecord, kw_only=True):
    """The port of NCCL's own health service is taken, which does no harm."""

    KIND: ClassVar[str] = "nccl.ras-port-in-use"


class NcclDuplicateGpu(LogRecord, kw_only=True):
    """Two ranks use the same GPU."""

    KIND: ClassVar[str] = "nccl.duplicate-gpu"
    rank_a: int | None = None
    rank_b: int | None = None
    bus: str | None = None


class NcclVersionMismatch(LogRecord, kw_only=True):
    """Ranks use different versions of NCCL."""

    KIND: ClassVar[str] = "nccl.version-mismatch"
    rank_a: int
    version_a: int
    """Version of the first rank."""
    rank_b: int
    version_b: int
    """Version of the second rank."""


class NcclMessageTruncated(LogRecord, kw_only=True):
    """Ranks disagree on the size of a message."""

    KIND: ClassVar[str] = "nccl.message-truncated"
    received: int | None = None
    expected: int | None = None


class NcclCollectiveMismatch(LogRecord, kw_only=True):
    """Ranks call different collectives."""

    KIND: ClassVar[str] = "nccl.collective-mismatch"
    rank: int


class NcclIpcFailed(Complaint, kw_only=True):
    """Memory of a GPU cannot be shared between processes."""

    KIND: ClassVar[str] = "nccl.ipc-failed"
    call: str
    """Function that failed."""


class NcclAlgoUnavailable(LogRecord, kw_only=True):
    """No algorithm or protocol is left that could do a collective."""

    KIND: ClassVar[str] = "nccl.algo-unavailable"
    function: str | None = None
    algorithm: str | None = None
    protocol: str | None = None


class NcclNetworkNotFound(LogRecord, kw_only=True):
    """The network that NCCL_NET names is not there."""

    KIND: ClassVar[str] = "nccl.network-not-found"
    name: str


class NcclShm(LogRecord, kw_only=True):
    """A segment of shared memory could not be made or used."""

    KIND: ClassVar[str] = "nccl.shm"
    step: str | None = None
    path: str | None = None
    bytes: int | None = None
    reason: str | None = None


class NcclAllocationFailed(LogRecord, kw_only=True):
    """Memory could not be allocated."""

    KIND: ClassVar[str] = "nccl.allocation-failed"
    bytes: int | None = None


class NcclCudaError(LogRecord, kw_only=True):
    """A call of CUDA failed within NCCL."""

    KIND: ClassVar[str] = "nccl.cuda-error"
    code: int | None = None
    """Number of the error."""
    text: str | None = None
    file: str | None = None
    """Place in the source code."""
    error: int | None = None
    bytes: int | None = None
    actual: int | None = None
    """Value that was received instead."""
    needed: int | None = None
    """Required value."""


class NcclDriverOld(LogRecord, kw_only=True):
    """The CUDA driver is too old for NCCL."""

    KIND: ClassVar[str] = "nccl.driver-old"
    actual: int | None = None
    """Value that was received instead."""
    needed: int | None = None
    """Required value."""
    text: str | None = None


class NcclNvlsBind(LogRecord, kw_only=True):
    """Memory could not be bound for NVLink SHARP."""

    KIND: ClassVar[str] = "nccl.nvls-bind"
    error: int | None = None
    text: str | None = None
    bytes: int | None = None
    code: int | None = None
    """Number of the error."""
    file: str | None = None
    """Place in the source code."""


class NcclImex(LogRecord, kw_only=True):
    """The service for NVLink between nodes is there and does not work."""

    KIND: ClassVar[str] = "nccl.imex"
    clique_size: int
    """Number of GPUs in the clique."""


class NcclSharpFailed(Complaint, kw_only=True):
    """SHARP does not start."""

    KIND: ClassVar[str] = "nccl.sharp-failed"


class NcclProxyFailed(LogRecord, kw_only=True):
    """An operation of NCCL's proxy thread failed."""

    KIND: ClassVar[str] = "nccl.proxy-failed"
    operation: str
    from_rank: int | None = None
    """The rank from which it comes."""
    code: int | None = None
    """Number of the error."""


class NcclTopologyInvalid(Complaint, kw_only=True):
    """A topology file cannot be read."""

    KIND: ClassVar[str] = "nccl.topology-invalid"


class NcclError(LogRecord, kw_only=True):
    """A function of NCCL returned an error."""

    KIND: ClassVar[str] = "nccl.error"
    code: int | None = None
    """1 CUDA, 2 system, 3 internal, 4 argument, 5 usage, 6 remote."""
    name: str | None = None
    file: str | None = None
    """Place in the source code."""


class NcclWarning(LogRecord, kw_only=True):
    """A warning that no other record covers, after which runs end."""

    KIND: ClassVar[str] = "nccl.warning"
    message: str
    file: str
    """Place in the source code."""


class NcclNotice(LogRecord, kw_only=True):
    """A warning that no other record covers, after which runs go on."""

    KIND: ClassVar[str] = "nccl.notice"
    message: str
    file: str
    """Place in the source code."""


class RcclHipError(LogRecord, kw_only=True):
    """A call of HIP failed within RCCL."""

    KIND: ClassVar[str] = "rccl.hip-error"
    code: int | None = None
    """Number of the error."""
    text: str
    file: str | None = None
    """Place in the source code."""
