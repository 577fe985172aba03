"""Records of how ranks of NCCL and RCCL meet: versions, variables, communicators."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class NcclVersion(LogRecord, kw_only=True):
    """The version of NCCL or RCCL that a process loaded."""

    KIND: ClassVar[str] = "nccl.version"
    version: str
    cuda: str | None = None
    """Version of CUDA that it was built for, as `12.2`."""
    hip: str | None = None
    """Version of HIP that RCCL was built for."""
    flavour: str | None = None
    """`RCCL` where it is not NCCL."""


class NcclDriver(LogRecord, kw_only=True):
    """The driver's version of CUDA."""

    KIND: ClassVar[str] = "nccl.driver"
    api: int
    """Number of the CUDA API: 12080 for 12.8."""


class NcclEnvironment(LogRecord, kw_only=True):
    """A variable that is in force."""

    KIND: ClassVar[str] = "nccl.environment"
    name: str
    value: int | str
    by: str
    """`environment`, or `plugin` where a plugin set it."""


class NcclEnvironmentInvalid(LogRecord, kw_only=True):
    """A variable whose value NCCL cannot read."""

    KIND: ClassVar[str] = "nccl.environment-invalid"
    name: str
    value: int | str
    used: int
    """The default that NCCL takes instead."""


class NcclMatrixForced(LogRecord, kw_only=True):
    """NCCL_ALGO or NCCL_PROTO leave out combinations."""

    KIND: ClassVar[str] = "nccl.matrix-forced"


class NcclBootstrap(LogRecord, kw_only=True):
    """The interface over which ranks meet."""

    KIND: ClassVar[str] = "nccl.bootstrap"
    interface: str
    address: str


class NcclBootstrapTimings(LogRecord, kw_only=True):
    """The time that the ranks needed to meet."""

    KIND: ClassVar[str] = "nccl.bootstrap-timings"
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


class NcclInitStart(NcclRankOfCommunicator, kw_only=True):
    """A rank begins to initialise a communicator."""

    KIND: ClassVar[str] = "nccl.init-start"


class NcclInitComplete(NcclRankOfCommunicator, kw_only=True):
    """A rank is done with initialising a communicator."""

    KIND: ClassVar[str] = "nccl.init-complete"


class NcclDestroyed(NcclRankOfCommunicator, kw_only=True):
    """A communicator was taken down in order."""

    KIND: ClassVar[str] = "nccl.destroyed"


class NcclAborted(NcclRankOfCommunicator, kw_only=True):
    """A communicator was aborted."""

    KIND: ClassVar[str] = "nccl.aborted"


class NcclCommShape(LogRecord, kw_only=True):
    """The ranks and nodes of a communicator."""

    KIND: ClassVar[str] = "nccl.comm-shape"
    rank: int
    ranks: int
    """Ranks of the communicator."""
    nodes: int
    """Number of nodes that take part."""
    local_ranks: int | None = None
    """Ranks on the node of this rank."""
    mnnvl: bool | None = None
    """Whether NVLink spans several nodes."""


class NcclInitTimings(LogRecord, kw_only=True):
    """The durations of the steps of an initialisation."""

    KIND: ClassVar[str] = "nccl.init-timings"
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


class NcclRas(LogRecord, kw_only=True):
    """The socket on which NCCL answers questions about its health."""

    KIND: ClassVar[str] = "nccl.ras"
    address: str


class NcclSharedMemoryExceeded(LogRecord, kw_only=True):
    """The library does not know this GPU, so that kernels will not start."""

    KIND: ClassVar[str] = "nccl.shared-memory-exceeded"
    needed: int
    """Bytes of shared memory that a kernel needs."""
    actual: int
    """Bytes that the GPU offers."""


class NcclCumemHost(LogRecord, kw_only=True):
    """Host memory cannot be allocated by cuMem, as in containers without NUMA support."""

    KIND: ClassVar[str] = "nccl.cumem-host"


class RcclVersion(LogRecord, kw_only=True):
    """The versions of what RCCL stands on, spread over several lines."""

    KIND: ClassVar[str] = "rccl.version"
    hip: str | None = None
    """Version of HIP."""
    rocm: str | None = None
    """Version of ROCm."""
    library: str | None = None
    """Path of librccl."""


class RcclKernelSetting(LogRecord, kw_only=True):
    """A setting of the kernel or environment that RCCL misses."""

    KIND: ClassVar[str] = "rccl.kernel-setting"
    setting: str
    """`iommu=pt`, `numa_balancing` or `HSA_NO_SCRATCH_RECLAIM`."""
    text: str


class RcclMsccl(LogRecord, kw_only=True):
    """Whether the scheduler of MSCCL is on."""

    KIND: ClassVar[str] = "rccl.msccl"
    state: str
