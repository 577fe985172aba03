"""Records of deductions about the network that carries data, and whether it is the right network."""

from probes.logs.events.log_record import Complaint, LogRecord, Reasoned


class DeducedBadInterface(Reasoned, kw_only=True, tag="deduced.bad-interface"):
    """Ranks connect over an interface that leads to no other host."""

    interface: str
    address: str
    kind: str
    """`loopback`, `bridge`, `tunnel` or `link-local`."""
    nodes: int
    """Number of nodes that take part."""
    failed: bool
    """True if a connection failed."""
    works: bool
    """True if the run works over this interface."""


class DeducedConnectToLocal(Reasoned, kw_only=True, tag="deduced.connect-to-local"):
    """A rank connects to an address that no other host can have."""

    peer: str
    """Address of the other side."""


class DeducedBadSockets(Reasoned, kw_only=True, tag="deduced.bad-sockets"):
    """Data may go over an interface that leads to no other host."""

    interface: str


class DeducedHostIdShared(LogRecord, kw_only=True, tag="deduced.host-id-shared"):
    """Several hosts share one NCCL_HOSTID."""

    value: str
    hosts: str


class DeducedInterfacesDiffer(LogRecord, kw_only=True, tag="deduced.interfaces-differ"):
    """Hosts announce IPv4 addresses that differ in the first number."""

    networks: str
    """The different first numbers of the addresses as text, each as `10.x`."""


class DeducedHostShared(LogRecord, kw_only=True, tag="deduced.host-shared"):
    """Two machines have the same host name."""

    host: str
    addresses: str
    """The addresses, separated by commas."""
    failed: bool
    """True if the logs report any failure."""


class DeducedRanksMissingAtStart(LogRecord, kw_only=True, tag="deduced.ranks-missing-at-start"):
    """Some ranks never begin the initialisation, and no rank completes it."""

    missing: int
    ranks: int
    """Ranks of the communicator."""
    names: str
    """The missing ranks, separated by commas."""


class DeducedSocketsDespiteRdma(Reasoned, kw_only=True, tag="deduced.sockets-despite-rdma"):
    """Sockets carry data although RDMA should be available."""

    interface: str | None = None


class DeducedSockets(LogRecord, kw_only=True, tag="deduced.sockets"):
    """Sockets carry data between nodes."""

    interface: str | None = None


class DeducedSocketsBetweenNodes(LogRecord, kw_only=True, tag="deduced.sockets-between-nodes"):
    """NCCL chose sockets between nodes, but the log does not show whether they carry data."""

    interface: str | None = None


class DeducedSocketsAlone(LogRecord, kw_only=True, tag="deduced.sockets-alone"):
    """The log shows only that sockets were chosen."""

    interface: str | None = None


class DeducedNoRdmaDespite(Complaint, kw_only=True, tag="deduced.no-rdma-despite"):
    """RDMA devices are missing, though other lines suggest that some exist."""

    why: str
    """The reason to expect RDMA, as a phrase."""


class DeducedNoRdmaPerhaps(Complaint, kw_only=True, tag="deduced.no-rdma-perhaps"):
    """RDMA devices are missing; only a plugin of the container image suggests that some exist."""

    why: str
    """The reason to expect RDMA, as a phrase."""


class DeducedMixedHcas(Reasoned, kw_only=True, tag="deduced.mixed-hcas"):
    """The list of adapters mixes kinds that do not belong together."""

    names: str
    """Names, separated by commas."""


class DeducedHcaPrefix(Reasoned, kw_only=True, tag="deduced.hca-prefix"):
    """A name in NCCL_IB_HCA is also the prefix of other adapters."""

    names: str
    """Names, separated by commas."""


class DeducedHcasDiffer(Reasoned, kw_only=True, tag="deduced.hcas-differ"):
    """Processes of one run use different numbers of adapters."""

    names: str
    """Names, separated by commas."""


class DeducedMixedNetwork(LogRecord, kw_only=True, tag="deduced.mixed-network"):
    """Processes of one run use different networks."""

    networks: str
    """The networks with their hosts, as text."""


class DeducedGdrMissing(Reasoned, kw_only=True, tag="deduced.gdr-missing"):
    """Channels over RDMA do not use GPUDirect, and no line gives the distance as the reason."""

    firm: bool
    """True if the log contains no other explanation."""
    network: str


class DeducedGdrTooFar(LogRecord, kw_only=True, tag="deduced.gdr-too-far"):
    """GPUDirect was refused only because of the distance."""

    gpu: int | str | None = None
    hca: int | str | None = None
    distance: int | None = None
    """Distance in NCCL's topology."""
    limit: int | None = None
    """The largest distance that is allowed."""


class DeducedGidSuspected(Reasoned, kw_only=True, tag="deduced.gid-suspected"):
    """A peer does not answer, and the RoCE address (GID) that this side uses may be the reason."""

    firm: bool
    """True if the log points clearly to the address: it is link-local, or NCCL_IB_GID_INDEX is set and no
    rank has connected yet."""


class DeducedPortFlaps(Reasoned, kw_only=True, tag="deduced.port-flaps"):
    """A network port went down at least three times, or came up again but went down more often."""

    device: str
