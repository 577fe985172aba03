"""Records of how ranks of NCCL and RCCL meet: versions, variables, communicators."""

from __future__ import annotations

from probes.logs.events.log_record import LogRecord


class NcclVersion(LogRecord, kw_only=True, tag="nccl.version"):
    """The version of NCCL or RCCL that a process loaded."""

    version: str
    cuda: str | None = None
    """Version of CUDA that it was built for, as `12.2`."""
    hip: str | None = None
    """Version of HIP that RCCL was built for."""
    flavour: str | None = None
    """`RCCL` where it is not NCCL."""


class NcclDriver(LogRecord, kw_only=True, tag="nccl.driver"):
    """The driver's version of CUDA."""

    api: int
    """Number of the CUDA API: 12080 for 12.8."""


class NcclEnvironment(LogRecord, kw_only=True, tag="nccl.environment"):
    """A variable that is in force."""

    name: str
    value: int | str
    by: str
    """`environment`, or `plugin` where a plugin set it."""


class NcclEnvironmentInvalid(LogRecord, kw_only=True, tag="nccl.environment-invalid"):
    """A variable whose value NCCL cannot read."""

    name: str
    value: int | str
    used: int
    """The default that NCCL takes instead."""


class NcclMatrixForced(LogRecord, kw_only=True, tag="nccl.matrix-forced"):
    """NCCL_ALGO or NCCL_PROTO leave out combinations."""


class NcclBootstrap(LogRecord, kw_only=True, tag="nccl.bootstrap"):
    """The interface over which ranks meet."""

    interface: str
    address: str


class NcclBootstrapTimings(LogRecord, kw_only=True, tag="nccl.bootstrap-timings"):
    """The time that the ranks needed to meet."""

    total_s: float | None = None
    """Seconds in all."""
    receive_s: float | None = None
    """Seconds in which the rank waited to receive."""


class NcclRankOfCommunicator(LogRecord, kw_only=True):
    """One rank of one communicator."""

    rank: int
    ranks: int
    """Ranks of the communicator."""
    comm: str
    """One name for all ranks of the communicator; empty where the line has only an address."""
    gpu: int | None = None
    bus: str | None = None
    """Bus id in hexadecimal."""
    parent: int | str | None = None
    """The communicator that it was split from."""


class NcclInitStart(NcclRankOfCommunicator, kw_only=True, tag="nccl.init-start"):
    """A rank begins to initialise a communicator."""


class NcclInitComplete(NcclRankOfCommunicator, kw_only=True, tag="nccl.init-complete"):
    """A rank is done with initialising a communicator."""


class NcclDestroyed(NcclRankOfCommunicator, kw_only=True, tag="nccl.destroyed"):
    """A communicator was taken down in order."""


class NcclAborted(NcclRankOfCommunicator, kw_only=True, tag="nccl.aborted"):
    """A communicator was aborted."""


class NcclCommShape(LogRecord, kw_only=True, tag="nccl.comm-shape"):
    """The ranks and nodes of a communicator."""

    rank: int
    ranks: int
    """Ranks of the communicator."""
    nodes: int
    """Number of nodes that take part."""
    local_ranks: int | None = None
    """Ranks on the node of this rank."""
    mnnvl: bool | None = None
    """Whether NVLink spans several nodes."""


class NcclInitTimings(LogRecord, kw_only=True, tag="nccl.init-timings"):
    """The durations of the steps of an initialisation."""

    rank: int
    ranks: int
    """Ranks of the communicator."""
    total_s: float | None = None
    """Seconds in all."""
    kernels_s: float | None = None
    """Seconds for loading kernels."""
    alloc_s: float | None = None
    """Seconds for allocating memory."""
    bootstrap_s: float | None = None
    """Seconds for meeting the other ranks."""
    allgathers_s: float | None = None
    """Seconds for exchanging what ranks know."""
    topo_s: float | None = None
    """Seconds for detecting the topology."""
    graphs_s: float | None = None
    """Seconds for computing rings and trees."""
    connections_s: float | None = None
    """Seconds for connecting to peers."""
    rest_s: float | None = None
    """Seconds for all else."""


class NcclRas(LogRecord, kw_only=True, tag="nccl.ras"):
    """The socket on which NCCL answers questions about its health."""

    address: str


class NcclSharedMemoryExceeded(LogRecord, kw_only=True, tag="nccl.shared-memory-exceeded"):
    """The library does not know this GPU, so that kernels will not start."""

    needed: int
    """Bytes of shared memory that a kernel needs."""
    actual: int
    """Bytes that the GPU offers."""


class NcclCumemHost(LogRecord, kw_only=True, tag="nccl.cumem-host"):
    """Host memory cannot be allocated by cuMem, as in containers without NUMA support."""


class RcclVersion(LogRecord, kw_only=True, tag="rccl.version"):
    """The versions of what RCCL stands on, spread over several lines."""

    hip: str | None = None
    """Version of HIP."""
    rocm: str | None = None
    """Version of ROCm."""
    library: str | None = None
    """Path of librccl."""


class RcclKernelSetting(LogRecord, kw_only=True, tag="rccl.kernel-setting"):
    """A setting of the kernel or environment that RCCL misses."""

    setting: str
    """`iommu=pt`, `numa_balancing` or `HSA_NO_SCRATCH_RECLAIM`."""
    text: str


class RcclMsccl(LogRecord, kw_only=True, tag="rccl.msccl"):
    """Whether the scheduler of MSCCL is on."""

    state: str
