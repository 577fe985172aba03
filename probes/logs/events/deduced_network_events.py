"""Records of deductions about networks: which one carries data, and whether it is the right one."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord, Reasoned


class DeducedBadInterface(Reasoned, kw_only=True):
    """Ranks meet over an interface that leads to no other host."""

    KIND: ClassVar[str] = "deduced.bad-interface"
    interface: str
    address: str
    kind: str
    """`loopback`, `bridge`, `tunnel` or `link-local`."""
    nodes: int
    """Number of nodes that take part."""
    failed: bool
    """Whether a connection failed."""
    works: bool
    """Whether the run works all the same."""


class DeducedConnectToLocal(Reasoned, kw_only=True):
    """A rank connects to an address that no other host can have."""

    KIND: ClassVar[str] = "deduced.connect-to-local"
    peer: str
    """Address of the other side."""


class DeducedBadSockets(Reasoned, kw_only=True):
    """Data may go over an interface that leads to no other host."""

    KIND: ClassVar[str] = "deduced.bad-sockets"
    interface: str


class DeducedHostIdShared(LogRecord, kw_only=True):
    """Several hosts share one NCCL_HOSTID."""

    KIND: ClassVar[str] = "deduced.host-id-shared"
    value: str
    hosts: str


class DeducedInterfacesDiffer(LogRecord, kw_only=True):
    """Hosts announce addresses of networks with nothing in common."""

    KIND: ClassVar[str] = "deduced.interfaces-differ"
    networks: str
    """Networks, in words."""


class DeducedHostShared(LogRecord, kw_only=True):
    """Two machines have one host name."""

    KIND: ClassVar[str] = "deduced.host-shared"
    host: str
    addresses: str
    """Addresses, in words."""
    failed: bool
    """Whether anything failed."""


class DeducedRanksMissingAtStart(LogRecord, kw_only=True):
    """Some ranks never begin, and none completes."""

    KIND: ClassVar[str] = "deduced.ranks-missing-at-start"
    missing: int
    ranks: int
    """Ranks of the communicator."""
    names: str
    """Names, separated by commas."""


class DeducedSocketsDespiteRdma(Reasoned, kw_only=True):
    """Sockets carry data although RDMA should be there."""

    KIND: ClassVar[str] = "deduced.sockets-despite-rdma"
    interface: str | None = None


class DeducedSockets(LogRecord, kw_only=True):
    """Sockets carry data between nodes."""

    KIND: ClassVar[str] = "deduced.sockets"
    interface: str | None = None


class DeducedSocketsBetweenNodes(LogRecord, kw_only=True):
    """Sockets are chosen between nodes, in a log that does not say whether they carry data."""

    KIND: ClassVar[str] = "deduced.sockets-between-nodes"
    interface: str | None = None


class DeducedSocketsAlone(LogRecord, kw_only=True):
    """An excerpt holds nothing but the choice of sockets."""

    KIND: ClassVar[str] = "deduced.sockets-alone"
    interface: str | None = None


class DeducedNoRdmaDespite(Complaint, kw_only=True):
    """There is no RDMA device although something speaks for one."""

    KIND: ClassVar[str] = "deduced.no-rdma-despite"
    why: str
    """The reason, in words."""


class DeducedNoRdmaPerhaps(Complaint, kw_only=True):
    """There is no RDMA device, and only a plugin of the image speaks for one."""

    KIND: ClassVar[str] = "deduced.no-rdma-perhaps"
    why: str
    """The reason, in words."""


class DeducedMixedHcas(Reasoned, kw_only=True):
    """The list of adapters mixes what does not belong together."""

    KIND: ClassVar[str] = "deduced.mixed-hcas"
    names: str
    """Names, separated by commas."""


class DeducedHcaPrefix(Reasoned, kw_only=True):
    """A name in NCCL_IB_HCA is the beginning of more adapters than it means."""

    KIND: ClassVar[str] = "deduced.hca-prefix"
    names: str
    """Names, separated by commas."""


class DeducedHcasDiffer(Reasoned, kw_only=True):
    """Processes of one run use different numbers of adapters."""

    KIND: ClassVar[str] = "deduced.hcas-differ"
    names: str
    """Names, separated by commas."""


class DeducedMixedNetwork(LogRecord, kw_only=True):
    """Processes of one run use different networks."""

    KIND: ClassVar[str] = "deduced.mixed-network"
    networks: str
    """Networks, in words."""


class DeducedGdrMissing(Reasoned, kw_only=True):
    """Channels over RDMA go without GPUDirect, and nothing says why."""

    KIND: ClassVar[str] = "deduced.gdr-missing"
    firm: bool
    """Whether nothing else can explain it."""
    network: str


class DeducedGdrTooFar(LogRecord, kw_only=True):
    """GPUDirect was refused for the distance alone."""

    KIND: ClassVar[str] = "deduced.gdr-too-far"
    gpu: int | str | None = None
    hca: int | str | None = None
    distance: int | None = None
    """Distance in NCCL's topology."""
    limit: int | None = None
    """The largest distance that is allowed."""


class DeducedGidSuspected(Reasoned, kw_only=True):
    """A peer does not answer where addresses of Ethernet decide."""

    KIND: ClassVar[str] = "deduced.gid-suspected"
    firm: bool
    """Whether the address is surely wrong."""


class DeducedPortFlaps(Reasoned, kw_only=True):
    """A network port went down more than once, or stays down."""

    KIND: ClassVar[str] = "deduced.port-flaps"
    device: str
