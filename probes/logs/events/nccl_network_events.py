"""Records of NCCL's lines about the network that carries data between nodes."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord


class NcclNetwork(LogRecord, kw_only=True):
    """The network that carries data between nodes, for one process."""

    KIND: ClassVar[str] = "nccl.network"
    name: str
    """`IB`, `Socket`, `AWS Libfabric`, `gIB`, `FasTrak` or `IBext_v8`."""


class NcclHcas(LogRecord, kw_only=True):
    """The list of adapters that NCCL uses."""

    KIND: ClassVar[str] = "nccl.hcas"
    names: str
    """Adapters with their ports, as `mlx5_0:1,mlx5_1:1`."""
    links: str
    """Link layers, each once: `IB,RoCE`."""
    count: int
    relaxed_ordering: bool
    """Whether PCIe transactions may overtake each other."""
    interface: str | None = None
    """Interface for out-of-band messages; None where the line was cut."""


class NcclHca(LogRecord, kw_only=True):
    """One port of an adapter."""

    KIND: ClassVar[str] = "nccl.hca"
    index: int
    name: str
    port: int
    link: str
    """Link layer."""
    provider: str
    speed_mbps: int
    """Speed in Mbit/s."""
    pci: str | None = None


class NcclHcaMerged(LogRecord, kw_only=True):
    """Ports that NCCL drives as one adapter."""

    KIND: ClassVar[str] = "nccl.hca-merged"
    name: str
    ports: int
    speed_mbps: int
    """Speed in Mbit/s."""


class NcclQueuePair(LogRecord, kw_only=True):
    """A queue pair of a connection."""

    KIND: ClassVar[str] = "nccl.queue-pair"
    hca: int | str
    """Number or name of the adapter."""
    port: int
    mtu: int
    """Number of ibverbs: 5 is 4096 bytes."""
    lid: int | None = None
    gid_index: int | None = None


class NcclNoIb(LogRecord, kw_only=True):
    """There is no InfiniBand or RoCE that NCCL can use."""

    KIND: ClassVar[str] = "nccl.no-ib"
    reason: str
    """`no device`, `no libibverbs` or `not initialized`."""


class NcclSocketInterfaces(LogRecord, kw_only=True):
    """The interfaces for data over sockets."""

    KIND: ClassVar[str] = "nccl.socket-interfaces"
    names: str
    """Ranks, separated by commas."""
    addresses: str
    """Ranks, separated by commas."""
    count: int


class NcclSocketThreads(LogRecord, kw_only=True):
    """The threads and sockets that serve one connection."""

    KIND: ClassVar[str] = "nccl.socket-threads"
    threads: int
    sockets: int


class NcclGdr(LogRecord, kw_only=True):
    """Whether an RDMA adapter may access the memory of a GPU."""

    KIND: ClassVar[str] = "nccl.gdr"
    enabled: bool
    hca: int | str
    """Number or name of the adapter."""
    gpu: int | str | None = None
    distance: int | None = None
    """Steps between GPU and adapter, by NCCL's topology."""
    limit: int | None = None
    """The largest distance that is allowed."""
    module: str | None = None
    """The kernel module that makes it possible."""
    reason: str | None = None
    """`distance` or `no module`, where it is refused."""


class NcclDmaBuf(LogRecord, kw_only=True):
    """The kernel can lend the memory of a GPU to adapters."""

    KIND: ClassVar[str] = "nccl.dma-buf"
    gpu: int


class NcclSharp(LogRecord, kw_only=True):
    """SHARP, by which switches compute, is at work."""

    KIND: ClassVar[str] = "nccl.sharp"
    what: str
    """Subject of the measurement."""


class NcclNetCountMismatch(LogRecord, kw_only=True):
    """Ranks see different numbers of adapters."""

    KIND: ClassVar[str] = "nccl.net-count-mismatch"
    least: int
    most: int


class NcclPluginLoaded(LogRecord, kw_only=True):
    """A plugin was loaded."""

    KIND: ClassVar[str] = "nccl.plugin-loaded"
    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str | None = None
    version: str | None = None
    path: str | None = None


class NcclPluginMissing(LogRecord, kw_only=True):
    """A plugin was looked for and is not there, which is no fault by itself."""

    KIND: ClassVar[str] = "nccl.plugin-missing"
    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str | None = None
    reason: str | None = None


class NcclPluginFailed(LogRecord, kw_only=True):
    """A plugin is there and does not load or start."""

    KIND: ClassVar[str] = "nccl.plugin-failed"
    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str | None = None
    reason: str | None = None


class NcclPluginError(LogRecord, kw_only=True):
    """A warning of a plugin that reports no failure."""

    KIND: ClassVar[str] = "nccl.plugin-error"
    kind: str
    """Kind."""
    name: str
    message: str


class NcclNetworkPlugin(LogRecord, kw_only=True):
    """A plugin for a network introduces itself."""

    KIND: ClassVar[str] = "nccl.network-plugin"
    name: str
    """`FasTrak`, `GPUDirectTCPX` or `gIB`."""
    version: str | None = None


class OfiVersion(LogRecord, kw_only=True):
    """The version of aws-ofi-nccl, the plugin for libfabric."""

    KIND: ClassVar[str] = "ofi.version"
    version: str


class OfiLibfabric(LogRecord, kw_only=True):
    """The version of libfabric."""

    KIND: ClassVar[str] = "ofi.libfabric"
    version: str


class OfiProvider(LogRecord, kw_only=True):
    """The provider of libfabric that was selected."""

    KIND: ClassVar[str] = "ofi.provider"
    name: str
    fabric: str | None = None
    """Name of the fabric."""
    nics: int | None = None
    """Number of adapters."""


class OfiProtocol(LogRecord, kw_only=True):
    """The transport protocol of the plugin."""

    KIND: ClassVar[str] = "ofi.protocol"
    name: str


class OfiPlatform(LogRecord, kw_only=True):
    """The platform that the plugin recognised."""

    KIND: ClassVar[str] = "ofi.platform"
    name: str
    topology: str | None = None
    """Path of the topology file that it set."""


class OfiNoProvider(LogRecord, kw_only=True):
    """libfabric offers nothing that the plugin can use."""

    KIND: ClassVar[str] = "ofi.no-provider"


class OfiFailure(LogRecord, kw_only=True):
    """The plugin does not start."""

    KIND: ClassVar[str] = "ofi.failure"
    code: int | None = None
    """Number of the error."""
    reason: str | None = None


class OfiCompletionError(LogRecord, kw_only=True):
    """A request over libfabric failed."""

    KIND: ClassVar[str] = "ofi.completion-error"
    code: int | None = None
    """Number of the error."""
    reason: str | None = None
    direction: str | None = None
    """`SEND` or `RECV`."""
    device: int | None = None
    provider: str | None = None


class OfiRegistration(LogRecord, kw_only=True):
    """Memory could not be registered with libfabric."""

    KIND: ClassVar[str] = "ofi.registration"
    code: int | None = None
    """Number of the error."""
    reason: str | None = None


class OfiNoGdr(Complaint, kw_only=True):
    """The plugin goes without GPUDirect RDMA."""

    KIND: ClassVar[str] = "ofi.no-gdr"


class OfiWarning(LogRecord, kw_only=True):
    """A warning of the plugin that no other record covers."""

    KIND: ClassVar[str] = "ofi.warning"
    message: str


class VerbsDriverMissing(LogRecord, kw_only=True):
    """A device without a driver in libibverbs, or without one for this kernel.

    This is usual in images with providers of other cards.
    """

    KIND: ClassVar[str] = "verbs.driver-missing"
    driver: str | None = None
    """Version or name of the driver."""


class VerbsMemlock(LogRecord, kw_only=True):
    """libibverbs warns that the limit of locked memory is small."""

    KIND: ClassVar[str] = "verbs.memlock"
    bytes: int


class UcxCompletionError(LogRecord, kw_only=True):
    """A work completion of UCX failed."""

    KIND: ClassVar[str] = "ucx.completion-error"
    status: int
    """Number of `ibv_wc_status`."""
    vendor: int
    """The vendor's own number of the error."""
    hca: str


class UcxError(LogRecord, kw_only=True):
    """An error of UCX, or of UCC above it."""

    KIND: ClassVar[str] = "ucx.error"
    message: str
