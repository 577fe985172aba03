"""Records of NCCL and RCCL about a start: versions, variables, communicators, and the ways between ranks."""

from probes.logs.events.log_record import LogRecord


class NcclVersion(LogRecord, kw_only=True, tag="nccl.version"):
    """The version of NCCL or RCCL that a process loaded."""

    version: str
    cuda: str | None = None
    """Version of CUDA that the library was built for: `12.2`."""
    hip: str | None = None
    """Version of HIP that RCCL was built for."""
    flavour: str | None = None
    """`RCCL` if the library is not NCCL."""


class NcclDriver(LogRecord, kw_only=True, tag="nccl.driver"):
    """The driver's version of CUDA."""

    api: int
    """Number of the CUDA API: 12080 for 12.8."""


class NcclEnvironment(LogRecord, kw_only=True, tag="nccl.environment"):
    """A variable that is in force."""

    name: str
    value: int | str
    by: str
    """`environment`, or `plugin` if a plugin set the variable."""


class NcclEnvironmentInvalid(LogRecord, kw_only=True, tag="nccl.environment-invalid"):
    """A variable whose value NCCL cannot read."""

    name: str
    value: int | str
    used: int
    """The default that NCCL uses instead."""


class NcclMatrixForced(LogRecord, kw_only=True, tag="nccl.matrix-forced"):
    """NCCL_ALGO or NCCL_PROTO exclude combinations."""


class NcclBootstrap(LogRecord, kw_only=True, tag="nccl.bootstrap"):
    """The interface over which ranks meet."""

    interface: str
    address: str


class NcclBootstrapTimings(LogRecord, kw_only=True, tag="nccl.bootstrap-timings"):
    """The time that the ranks needed to meet."""

    total_s: float | None = None
    """Seconds in total."""
    receive_s: float | None = None
    """Seconds in which the rank waited to receive."""


class NcclRankOfCommunicator(LogRecord, kw_only=True):
    """One rank of one communicator."""

    rank: int
    ranks: int
    """Ranks of the communicator."""
    comm: str
    """Name of the communicator, the same on all ranks; empty if the line has only an address."""
    gpu: int | None = None
    bus: str | None = None
    """Bus id in hexadecimal."""
    parent: int | str | None = None
    """The communicator from which this one was split."""


class NcclInitStart(NcclRankOfCommunicator, kw_only=True, tag="nccl.init-start"):
    """A rank begins to initialise a communicator."""


class NcclInitComplete(NcclRankOfCommunicator, kw_only=True, tag="nccl.init-complete"):
    """A rank has initialised a communicator."""


class NcclDestroyed(NcclRankOfCommunicator, kw_only=True, tag="nccl.destroyed"):
    """A communicator was destroyed as intended."""


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
    """Seconds in total."""
    kernels_s: float | None = None
    """Seconds for loading kernels."""
    alloc_s: float | None = None
    """Seconds for allocating memory."""
    bootstrap_s: float | None = None
    """Seconds for meeting the other ranks."""
    allgathers_s: float | None = None
    """Seconds for exchanging data about the ranks."""
    topo_s: float | None = None
    """Seconds for detecting the topology."""
    graphs_s: float | None = None
    """Seconds for computing rings and trees."""
    connections_s: float | None = None
    """Seconds for connecting to peers."""
    rest_s: float | None = None
    """Seconds for the other steps."""


class NcclRas(LogRecord, kw_only=True, tag="nccl.ras"):
    """The socket on which NCCL answers questions about its health."""

    address: str


class NcclSharedMemoryExceeded(LogRecord, kw_only=True, tag="nccl.shared-memory-exceeded"):
    """The library does not support this GPU, so that kernels will not start."""

    needed: int
    """Bytes of shared memory that a kernel needs."""
    actual: int
    """Bytes that the GPU offers."""


class NcclCumemHost(LogRecord, kw_only=True, tag="nccl.cumem-host"):
    """Host memory cannot be allocated by cuMem, as in containers without NUMA support."""


class RcclVersion(LogRecord, kw_only=True, tag="rccl.version"):
    """The versions of HIP and ROCm, or the path of RCCL; each has a line of its own."""

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


class NcclChannel(LogRecord, kw_only=True, tag="nccl.channel"):
    """One channel between ranks; most lines of a log report channels."""

    transport: str
    """`P2P`, `SHM`, `NET` or `COLLNET`."""
    how: str
    """The way within the transport: `CUMEM`, `direct`, `IB`."""
    network: str | None = None
    """The network of `NET` and `COLLNET`."""
    gdr: bool | None = None
    """Whether the adapter reads or writes the memory of the GPU; None within a node."""
    pxn: bool | None = None
    """Whether the data goes through the GPU next to the adapter; None within a node."""
    side: str | None = None
    """`send` or `receive`, if the line names the side."""
    from_rank: int | None = None
    """The sending rank."""
    to_rank: int | None = None
    """The receiving rank."""
    pairs: str | None = None
    """The first pairs of ranks with this way: `0>1,1>2`; only in the last event of a way."""


class NcclChannels(LogRecord, kw_only=True, tag="nccl.channels"):
    """The channels of a rank."""

    coll: int
    """Channels for collectives."""
    collnet: int | None = None
    """Channels for CollNet."""
    nvls: int | None = None
    """Channels for NVLink SHARP."""
    p2p: int
    """Channels for sends and receives."""
    p2p_per_peer: int | None = None
    """Channels for sends and receives with each peer."""


class NcclRings(LogRecord, kw_only=True, tag="nccl.rings"):
    """The rings of a host's ranks."""

    channels: int


class NcclTrees(LogRecord, kw_only=True, tag="nccl.trees"):
    """The trees of a rank."""

    channels: int


class NcclConnected(LogRecord, kw_only=True, tag="nccl.connected"):
    """A rank is connected to its peers."""

    what: str
    """`rings`, `trees`, `binomial trees` or `NVLS`."""
    pxn: bool | None = None
    """Whether PXN is used."""
    gdr: bool | None = None
    """Whether GPUDirect RDMA is used."""


class NcclNvls(LogRecord, kw_only=True, tag="nccl.nvls"):
    """Whether NVLink SHARP is available."""

    available: bool
    gpu: int


class NcclNvlsBuffers(LogRecord, kw_only=True, tag="nccl.nvls-buffers"):
    """Buffers for NVLink SHARP were set up."""

    heads: int
    """Number of heads."""


class NcclMnnvl(LogRecord, kw_only=True, tag="nccl.mnnvl"):
    """NVLink between the GPUs of several nodes."""

    enabled: bool | None = None
    clique: str | None = None
    """Number of the clique in hexadecimal."""
    clique_size: int | None = None
    """Number of GPUs in the clique."""
    uuid: str | None = None
    """Name of the fabric."""
    state: int | None = None
    """State of the GPU's registration; 3 is completed."""
    health: str | None = None
    """NVML's mask of the fabric's health, in hexadecimal."""


class NcclSystem(LogRecord, kw_only=True, tag="nccl.system"):
    """The bandwidths of the whole machine, in NCCL's model."""

    max_gbps: float | None = None
    """Gigabytes per second."""
    total_gbps: float | None = None
    """Gigabytes per second."""


class NcclTopology(LogRecord, kw_only=True, tag="nccl.topology"):
    """One link of the topology, in NCCL's model."""

    link: str
    """`NVL`, `NET`, `PCI` or `C2C`."""
    gbps: float | None = None
    """Gigabytes per second."""
    to: str
    """`GPU`, `NVS` or `NET`."""


class NcclGraph(LogRecord, kw_only=True, tag="nccl.graph"):
    """A pattern of channels that NCCL computed."""

    pattern: int
    """Number of the pattern."""
    channels: int
    gbps: str
    """Gigabytes per second, within a node and between nodes."""
    intra: str
    """The farthest way within a node."""
    inter: str | None = None
    """The farthest way to an adapter."""


class NcclPath(LogRecord, kw_only=True, tag="nccl.path"):
    """The distances of a GPU from adapters and from other GPUs."""

    gpu: str
    to_nic: str | None = None
    """The kind of way to the nearest adapter: `PIX`, `PXB`, `PHB` or `SYS`."""
    to_gpu: str | None = None
    """The kind of way to the farthest GPU."""


class NcclTopologyLoaded(LogRecord, kw_only=True, tag="nccl.topology-loaded"):
    """NCCL reads its topology from a file."""

    path: str


class NcclLinkSpeedUnknown(LogRecord, kw_only=True, tag="nccl.link-speed-unknown"):
    """The speed of a link could not be read."""

    path: str


class NcclVirtualNic(LogRecord, kw_only=True, tag="nccl.virtual-nic"):
    """A network interface is no PCI device."""

    path: str


class NcclTuned(LogRecord, kw_only=True, tag="nccl.tuned"):
    """The algorithm and protocol that the tuner chose."""

    coll: str
    algorithm: str
    protocol: str


class NcclP2pUnavailable(LogRecord, kw_only=True, tag="nccl.p2p-unavailable"):
    """Two GPUs do not reach each other directly."""

    a: int
    """Number of the first GPU."""
    b: int
    """Number of the second GPU."""
    bus_a: str
    """Bus id of the first GPU."""
    bus_b: str
    """Bus id of the second GPU."""


class NcclP2pDisabled(LogRecord, kw_only=True, tag="nccl.p2p-disabled"):
    """Peer-to-peer between two GPUs is switched off."""

    a: int
    """Number of the first GPU."""
    b: int
    """Number of the second GPU."""
    nvlink: bool
    """Whether they are connected by NVLink."""
