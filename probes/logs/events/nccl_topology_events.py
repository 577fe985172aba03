"""Records of NCCL's lines about the ways between ranks: channels, rings, trees, links and distances."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class NcclChannel(LogRecord, kw_only=True):
    """One way on which ranks reach each other; by far the most lines of a log."""

    KIND: ClassVar[str] = "nccl.channel"
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
    """`send` or `receive`, where the line has one."""
    from_rank: int | None = None
    """The rank from which it comes."""
    to_rank: int | None = None
    """The rank to which it goes."""
    pairs: str | None = None
    """The first pairs of ranks that go this way, as `0>1,1>2`; on the last event of a way."""


class NcclChannels(LogRecord, kw_only=True):
    """The channels of a rank."""

    KIND: ClassVar[str] = "nccl.channels"
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


class NcclRings(LogRecord, kw_only=True):
    """The rings of a host's ranks."""

    KIND: ClassVar[str] = "nccl.rings"
    channels: int


class NcclTrees(LogRecord, kw_only=True):
    """The trees of a rank."""

    KIND: ClassVar[str] = "nccl.trees"
    channels: int


class NcclConnected(LogRecord, kw_only=True):
    """A rank is connected to its peers."""

    KIND: ClassVar[str] = "nccl.connected"
    what: str
    """`rings`, `trees`, `binomial trees` or `NVLS`."""
    pxn: bool | None = None
    """Whether PXN is used."""
    gdr: bool | None = None
    """Whether GPUDirect RDMA is used."""


class NcclNvls(LogRecord, kw_only=True):
    """Whether NVLink SHARP is available."""

    KIND: ClassVar[str] = "nccl.nvls"
    available: bool
    gpu: int


class NcclNvlsBuffers(LogRecord, kw_only=True):
    """Buffers for NVLink SHARP were set up."""

    KIND: ClassVar[str] = "nccl.nvls-buffers"
    heads: int
    """Number of heads."""


class NcclMnnvl(LogRecord, kw_only=True):
    """NVLink between the GPUs of several nodes."""

    KIND: ClassVar[str] = "nccl.mnnvl"
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


class NcclSystem(LogRecord, kw_only=True):
    """The bandwidths of the whole machine, in NCCL's model."""

    KIND: ClassVar[str] = "nccl.system"
    max_gbps: float | None = None
    """Gigabytes per second."""
    total_gbps: float | None = None
    """Gigabytes per second."""


class NcclTopology(LogRecord, kw_only=True):
    """One link of the topology, in NCCL's model."""

    KIND: ClassVar[str] = "nccl.topology"
    link: str
    """`NVL`, `NET`, `PCI` or `C2C`."""
    gbps: float | None = None
    """Gigabytes per second."""
    to: str
    """`GPU`, `NVS` or `NET`."""


class NcclGraph(LogRecord, kw_only=True):
    """A pattern of channels that NCCL computed."""

    KIND: ClassVar[str] = "nccl.graph"
    pattern: int
    """Number of the pattern."""
    channels: int
    gbps: str
    """Gigabytes per second, within a node and between nodes."""
    intra: str
    """The farthest way within a node."""
    inter: str | None = None
    """The farthest way to an adapter."""


class NcclPath(LogRecord, kw_only=True):
    """The distances of a GPU from adapters and from other GPUs."""

    KIND: ClassVar[str] = "nccl.path"
    gpu: str
    to_nic: str | None = None
    """The kind of way to the nearest adapter: `PIX`, `PXB`, `PHB` or `SYS`."""
    to_gpu: str | None = None
    """The kind of way to the farthest GPU."""


class NcclTopologyLoaded(LogRecord, kw_only=True):
    """NCCL reads its topology from a file."""

    KIND: ClassVar[str] = "nccl.topology-loaded"
    path: str


class NcclLinkSpeedUnknown(LogRecord, kw_only=True):
    """The speed of a link could not be read."""

    KIND: ClassVar[str] = "nccl.link-speed-unknown"
    path: str


class NcclVirtualNic(LogRecord, kw_only=True):
    """A network interface is no PCI device."""

    KIND: ClassVar[str] = "nccl.virtual-nic"
    path: str


class NcclTuned(LogRecord, kw_only=True):
    """The algorithm and protocol that the tuner chose."""

    KIND: ClassVar[str] = "nccl.tuned"
    coll: str
    algorithm: str
    protocol: str


class NcclP2pUnavailable(LogRecord, kw_only=True):
    """Two GPUs do not reach each other directly."""

    KIND: ClassVar[str] = "nccl.p2p-unavailable"
    a: int
    """Number of the first GPU."""
    b: int
    """Number of the second GPU."""
    bus_a: str
    """Bus id of the first GPU."""
    bus_b: str
    """Bus id of the second GPU."""


class NcclP2pDisabled(LogRecord, kw_only=True):
    """Peer-to-peer between two GPUs is switched off."""

    KIND: ClassVar[str] = "nccl.p2p-disabled"
    a: int
    """Number of the first GPU."""
    b: int
    """Number of the second GPU."""
    nvlink: bool
    """Whether they are connected by NVLink."""
