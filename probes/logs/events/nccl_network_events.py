"""Records of NCCL's lines about the network that carries data between nodes."""

from probes.logs.events.log_record import Complaint, LogRecord


class NcclNetwork(LogRecord, kw_only=True, tag="nccl.network"):
    """The network that carries data between nodes, for one process."""

    name: str
    """`IB`, `Socket`, `AWS Libfabric`, `gIB`, `FasTrak` or `IBext_v8`."""


class NcclHcas(LogRecord, kw_only=True, tag="nccl.hcas"):
    """The list of adapters that NCCL uses."""

    names: str
    """Adapters with their ports: `mlx5_0:1,mlx5_1:1`."""
    links: str
    """Link layers, each once: `IB,RoCE`."""
    count: int
    relaxed_ordering: bool
    """True if relaxed ordering is on: PCIe transactions may overtake each other."""
    interface: str | None = None
    """Interface for out-of-band messages; None if the line was cut."""


class NcclHca(LogRecord, kw_only=True, tag="nccl.hca"):
    """One port of an adapter."""

    index: int
    name: str
    port: int
    link: str
    """Link layer."""
    provider: str
    speed_mbps: int
    """Speed in Mbit/s."""
    pci: str | None = None


class NcclHcaMerged(LogRecord, kw_only=True, tag="nccl.hca-merged"):
    """Ports that NCCL uses as one adapter."""

    name: str
    ports: int
    speed_mbps: int
    """Speed in Mbit/s."""


class NcclQueuePair(LogRecord, kw_only=True, tag="nccl.queue-pair"):
    """A queue pair of a connection."""

    hca: int | str
    """Number or name of the adapter."""
    port: int
    mtu: int
    """Code of the MTU in ibverbs: 5 means 4096 bytes."""
    lid: int | None = None
    gid_index: int | None = None


class NcclNoIb(LogRecord, kw_only=True, tag="nccl.no-ib"):
    """NCCL finds no InfiniBand or RoCE that it can use."""

    reason: str
    """`no device`, `no libibverbs` or `not initialized`."""


class NcclSocketInterfaces(LogRecord, kw_only=True, tag="nccl.socket-interfaces"):
    """The interfaces for data over sockets."""

    names: str
    """Interfaces, separated by commas."""
    addresses: str
    """Addresses, separated by commas."""
    count: int


class NcclSocketThreads(LogRecord, kw_only=True, tag="nccl.socket-threads"):
    """The threads and sockets that serve one connection."""

    threads: int
    sockets: int


class NcclGdr(LogRecord, kw_only=True, tag="nccl.gdr"):
    """NCCL's decision whether an RDMA adapter accesses the memory of a GPU directly."""

    enabled: bool
    hca: int | str
    """Number or name of the adapter."""
    gpu: int | str | None = None
    distance: int | None = None
    """Distance between GPU and adapter in NCCL's topology."""
    limit: int | None = None
    """The largest distance that is allowed."""
    module: str | None = None
    """The kernel module that provides the access."""
    reason: str | None = None
    """`distance` or `no module`, if the access is refused."""


class NcclDmaBuf(LogRecord, kw_only=True, tag="nccl.dma-buf"):
    """The kernel can share the memory of a GPU with adapters."""

    gpu: int


class NcclSharp(LogRecord, kw_only=True, tag="nccl.sharp"):
    """SHARP (reductions that the switches compute) is in use."""

    what: str
    """Part of SHARP that is in use."""


class NcclNetCountMismatch(LogRecord, kw_only=True, tag="nccl.net-count-mismatch"):
    """Ranks see different numbers of adapters."""

    least: int
    most: int


class NcclPluginLoaded(LogRecord, kw_only=True, tag="nccl.plugin-loaded"):
    """A plugin was loaded."""

    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str | None = None
    version: str | None = None
    path: str | None = None


class NcclPluginMissing(LogRecord, kw_only=True, tag="nccl.plugin-missing"):
    """A plugin is missing. This alone is not a fault."""

    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str | None = None
    reason: str | None = None


class NcclPluginFailed(LogRecord, kw_only=True, tag="nccl.plugin-failed"):
    """A plugin exists but does not load or start."""

    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str | None = None
    reason: str | None = None


class NcclPluginError(LogRecord, kw_only=True, tag="nccl.plugin-error"):
    """A warning of a plugin that reports no failure."""

    kind: str
    """`net`, `tuner`, `profiler`, `collnet`, `gin` or `env`."""
    name: str
    message: str


class NcclNetworkPlugin(LogRecord, kw_only=True, tag="nccl.network-plugin"):
    """A network plugin reports its name and version."""

    name: str
    """`FasTrak`, `GPUDirectTCPX` or `gIB`."""
    version: str | None = None


class OfiVersion(LogRecord, kw_only=True, tag="ofi.version"):
    """The version of aws-ofi-nccl, the plugin for libfabric."""

    version: str


class OfiLibfabric(LogRecord, kw_only=True, tag="ofi.libfabric"):
    """The version of libfabric."""

    version: str


class OfiProvider(LogRecord, kw_only=True, tag="ofi.provider"):
    """The provider of libfabric that was selected."""

    name: str
    fabric: str | None = None
    """Name of the fabric."""
    nics: int | None = None
    """Number of adapters."""


class OfiProtocol(LogRecord, kw_only=True, tag="ofi.protocol"):
    """The transport protocol of the plugin."""

    name: str


class OfiPlatform(LogRecord, kw_only=True, tag="ofi.platform"):
    """The platform that the plugin recognised."""

    name: str
    topology: str | None = None
    """Path of the topology file that the plugin set."""


class OfiNoProvider(LogRecord, kw_only=True, tag="ofi.no-provider"):
    """libfabric offers nothing that the plugin can use."""


class OfiFailure(LogRecord, kw_only=True, tag="ofi.failure"):
    """The plugin does not start."""

    code: int | None = None
    """Number of the error."""
    reason: str | None = None


class OfiCompletionError(LogRecord, kw_only=True, tag="ofi.completion-error"):
    """A request over libfabric failed."""

    code: int | None = None
    """Number of the error."""
    reason: str | None = None
    direction: str | None = None
    """`SEND` or `RECV`."""
    device: int | None = None
    provider: str | None = None


class OfiRegistration(LogRecord, kw_only=True, tag="ofi.registration"):
    """Memory could not be registered with libfabric."""

    code: int | None = None
    """Number of the error."""
    reason: str | None = None


class OfiNoGdr(Complaint, kw_only=True, tag="ofi.no-gdr"):
    """The plugin does not use GPUDirect RDMA."""


class OfiWarning(LogRecord, kw_only=True, tag="ofi.warning"):
    """A warning of the plugin that no other record covers."""

    message: str


class VerbsDriverMissing(LogRecord, kw_only=True, tag="verbs.driver-missing"):
    """A device for which libibverbs has no driver at all, or no driver that fits this kernel.

    This is usual in container images with libibverbs drivers for cards that the machine lacks.
    """

    driver: str | None = None
    """Version or name of the driver."""


class VerbsMemlock(LogRecord, kw_only=True, tag="verbs.memlock"):
    """libibverbs warns that the limit of locked memory is small."""

    bytes: int


class UcxCompletionError(LogRecord, kw_only=True, tag="ucx.completion-error"):
    """A work completion of UCX failed."""

    status: int
    """Value of `ibv_wc_status`."""
    vendor: int
    """The vendor's own number of the error."""
    hca: str


class UcxError(LogRecord, kw_only=True, tag="ucx.error"):
    """An error of UCX or of UCC, which uses UCX."""

    message: str
