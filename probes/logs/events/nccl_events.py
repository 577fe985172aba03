"""Records of NCCL and RCCL about a start: versions, variables, communicators and transports."""

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
    """An environment variable that is in force."""

    name: str
    value: int | str
    by: str
    """`environment`, or `plugin` if a plugin set the variable."""


class NcclEnvironmentInvalid(LogRecord, kw_only=True, tag="nccl.environment-invalid"):
    """An environment variable whose value NCCL cannot read."""

    name: str
    value: int | str
    used: int
    """The default value that NCCL uses instead."""


class NcclMatrixForced(LogRecord, kw_only=True, tag="nccl.matrix-forced"):
    """NCCL_ALGO or NCCL_PROTO excludes combinations of algorithm and protocol."""


class NcclBootstrap(LogRecord, kw_only=True, tag="nccl.bootstrap"):
    """The interface over which ranks connect at the start."""

    interface: str
    address: str


class NcclBootstrapTimings(LogRecord, kw_only=True, tag="nccl.bootstrap-timings"):
    """The time that the ranks needed to connect to each other."""

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
    """Name of the communicator, equal on all ranks; empty if the line has only the communicator's address."""
    gpu: int | None = None
    bus: str | None = None
    """PCI bus id in hexadecimal."""
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
    """True if NVLink connects several nodes."""


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
    """Seconds for connecting to the other ranks."""
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
    """The socket on which NCCL's RAS service answers requests about the health of the run."""

    address: str


class NcclSharedMemoryExceeded(LogRecord, kw_only=True, tag="nccl.shared-memory-exceeded"):
    """A kernel needs more shared memory than the GPU has: the library does not support this GPU."""

    needed: int
    """Bytes of shared memory that a kernel needs."""
    actual: int
    """Bytes that the GPU offers."""


class NcclCumemHost(LogRecord, kw_only=True, tag="nccl.cumem-host"):
    """The cuMem functions cannot allocate host memory, as in containers without NUMA support."""


class RcclVersion(LogRecord, kw_only=True, tag="rccl.version"):
    """The version of HIP, the version of ROCm, or the path of RCCL; each is printed on a separate line."""

    hip: str | None = None
    """Version of HIP."""
    rocm: str | None = None
    """Version of ROCm."""
    library: str | None = None
    """Path of librccl."""


class RcclKernelSetting(LogRecord, kw_only=True, tag="rccl.kernel-setting"):
    """A setting of the kernel or the environment that RCCL reports as missing."""

    setting: str
    """`iommu=pt`, `numa_balancing` or `HSA_NO_SCRATCH_RECLAIM`."""
    text: str


class RcclMsccl(LogRecord, kw_only=True, tag="rccl.msccl"):
    """The state of the MSCCL scheduler, in RCCL's words."""

    state: str


class NcclChannel(LogRecord, kw_only=True, tag="nccl.channel"):
    """One channel between two ranks, with its transport; most lines of a log report channels."""

    transport: str
    """`P2P`, `SHM`, `NET` or `COLLNET`."""
    how: str
    """The variant of the transport: `CUMEM`, `direct`, `IB`."""
    network: str | None = None
    """The network that `NET` or `COLLNET` uses."""
    gdr: bool | None = None
    """True if the adapter reads or writes the memory of the GPU; None within a node."""
    pxn: bool | None = None
    """True if the data goes through the GPU next to the adapter; None within a node."""
    side: str | None = None
    """`send` or `receive`, if the line names the side."""
    from_rank: int | None = None
    """The sending rank."""
    to_rank: int | None = None
    """The receiving rank."""
    pairs: str | None = None
    """The first pairs of ranks with this transport: `0>1,1>2`; only in the transport's last event."""


class NcclChannels(LogRecord, kw_only=True, tag="nccl.channels"):
    """The numbers of channels of a rank."""

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
    """True if PXN is used."""
    gdr: bool | None = None
    """True if GPUDirect RDMA is used."""


class NcclNvls(LogRecord, kw_only=True, tag="nccl.nvls"):
    """The report of a GPU whether NVLink SHARP is available."""

    available: bool
    gpu: int


class NcclNvlsBuffers(LogRecord, kw_only=True, tag="nccl.nvls-buffers"):
    """Buffers for NVLink SHARP were set up."""

    heads: int
    """Number of NVLS heads, the ranks that each reduce a part of the data."""


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
    """State of the GPU's registration with the fabric; 3 means completed."""
    health: str | None = None
    """NVML's mask of the fabric's health, in hexadecimal."""


class NcclSystem(LogRecord, kw_only=True, tag="nccl.system"):
    """The bandwidths of the whole machine, in NCCL's model."""

    max_gbps: float | None = None
    """Largest bandwidth of a path from a GPU, in gigabytes per second."""
    total_gbps: float | None = None
    """Largest total bandwidth of one GPU's links, in gigabytes per second."""


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
    """NCCL's number of the pattern."""
    channels: int
    gbps: str
    """Gigabytes per second, within a node and between nodes."""
    intra: str
    """The longest kind of path within a node."""
    inter: str | None = None
    """The longest kind of path to an adapter."""


class NcclPath(LogRecord, kw_only=True, tag="nccl.path"):
    """The distances of a GPU from adapters and from other GPUs."""

    gpu: str
    to_nic: str | None = None
    """The kind of path to the nearest adapter: `PIX`, `PXB`, `PHB` or `SYS`."""
    to_gpu: str | None = None
    """The kind of path to the farthest GPU."""


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
    """Two GPUs cannot access each other's memory directly."""

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
    """True if NVLink connects the two GPUs."""
