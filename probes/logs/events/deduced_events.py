"""What only several events report together; each stands at the line of the first that it rests on."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class DeducedBadInterface(LogRecord, frozen=True, kw_only=True):
    """Ranks meet over an interface that leads to no other host."""

    KIND: ClassVar[str] = "deduced.bad-interface"
    interface: str
    address: str
    kind: str
    """`loopback`, `bridge`, `tunnel` or `link-local`."""
    why: str
    """The reason, in words."""
    nodes: int
    """How many nodes take part."""
    failed: bool
    """Whether a connection failed."""
    works: bool
    """Whether the run works all the same."""


class DeducedConnectToLocal(LogRecord, frozen=True, kw_only=True):
    """A rank connects to an address that no other host can have."""

    KIND: ClassVar[str] = "deduced.connect-to-local"
    peer: str
    """Address of the other side."""
    why: str
    """The reason, in words."""


class DeducedBadSockets(LogRecord, frozen=True, kw_only=True):
    """Data may go over an interface that leads to no other host."""

    KIND: ClassVar[str] = "deduced.bad-sockets"
    interface: str
    why: str
    """The reason, in words."""


class DeducedHostIdShared(LogRecord, frozen=True, kw_only=True):
    """Several hosts share one NCCL_HOSTID."""

    KIND: ClassVar[str] = "deduced.host-id-shared"
    value: str
    hosts: str


class DeducedInterfacesDiffer(LogRecord, frozen=True, kw_only=True):
    """Hosts announce addresses of networks with nothing in common."""

    KIND: ClassVar[str] = "deduced.interfaces-differ"
    networks: str
    """Networks, in words."""


class DeducedHostShared(LogRecord, frozen=True, kw_only=True):
    """Two machines have one host name."""

    KIND: ClassVar[str] = "deduced.host-shared"
    host: str
    addresses: str
    """Addresses, in words."""
    failed: bool
    """Whether anything failed."""


class DeducedRanksMissingAtStart(LogRecord, frozen=True, kw_only=True):
    """Some ranks never begin, and none completes."""

    KIND: ClassVar[str] = "deduced.ranks-missing-at-start"
    missing: int
    ranks: int
    """Ranks of the communicator."""
    names: str
    """Names, separated by commas."""


class DeducedSocketsDespiteRdma(LogRecord, frozen=True, kw_only=True):
    """Sockets carry data although RDMA should be there."""

    KIND: ClassVar[str] = "deduced.sockets-despite-rdma"
    why: str
    """The reason, in words."""
    interface: str | None = None


class DeducedSockets(LogRecord, frozen=True, kw_only=True):
    """Sockets carry data between nodes."""

    KIND: ClassVar[str] = "deduced.sockets"
    interface: str | None = None


class DeducedSocketsBetweenNodes(LogRecord, frozen=True, kw_only=True):
    """Sockets are chosen between nodes, in a log that does not say whether they carry data."""

    KIND: ClassVar[str] = "deduced.sockets-between-nodes"
    interface: str | None = None


class DeducedSocketsAlone(LogRecord, frozen=True, kw_only=True):
    """An excerpt holds nothing but the choice of sockets."""

    KIND: ClassVar[str] = "deduced.sockets-alone"
    interface: str | None = None


class DeducedNoRdmaDespite(LogRecord, frozen=True, kw_only=True):
    """There is no RDMA device although something speaks for one."""

    KIND: ClassVar[str] = "deduced.no-rdma-despite"
    why: str
    """The reason, in words."""
    reason: str


class DeducedNoRdmaPerhaps(LogRecord, frozen=True, kw_only=True):
    """There is no RDMA device, and only a plugin of the image speaks for one."""

    KIND: ClassVar[str] = "deduced.no-rdma-perhaps"
    why: str
    """The reason, in words."""
    reason: str


class DeducedMixedHcas(LogRecord, frozen=True, kw_only=True):
    """The list of adapters mixes what does not belong together."""

    KIND: ClassVar[str] = "deduced.mixed-hcas"
    names: str
    """Names, separated by commas."""
    why: str
    """The reason, in words."""


class DeducedHcaPrefix(LogRecord, frozen=True, kw_only=True):
    """A name in NCCL_IB_HCA is the beginning of more adapters than it means."""

    KIND: ClassVar[str] = "deduced.hca-prefix"
    names: str
    """Names, separated by commas."""
    why: str
    """The reason, in words."""


class DeducedHcasDiffer(LogRecord, frozen=True, kw_only=True):
    """Processes of one run use different numbers of adapters."""

    KIND: ClassVar[str] = "deduced.hcas-differ"
    names: str
    """Names, separated by commas."""
    why: str
    """The reason, in words."""


class DeducedMixedNetwork(LogRecord, frozen=True, kw_only=True):
    """Processes of one run use different networks."""

    KIND: ClassVar[str] = "deduced.mixed-network"
    networks: str
    """Networks, in words."""


class DeducedGdrMissing(LogRecord, frozen=True, kw_only=True):
    """Channels over RDMA go without GPUDirect, and nothing says why."""

    KIND: ClassVar[str] = "deduced.gdr-missing"
    firm: bool
    """Whether nothing else can explain it."""
    network: str
    why: str
    """The reason, in words."""


class DeducedGdrTooFar(LogRecord, frozen=True, kw_only=True):
    """GPUDirect was refused for the distance alone."""

    KIND: ClassVar[str] = "deduced.gdr-too-far"
    gpu: int | str | None = None
    hca: int | str | None = None
    distance: int | None = None
    """Distance in NCCL's topology."""
    limit: int | None = None
    """The largest distance that is allowed."""


class DeducedGidSuspected(LogRecord, frozen=True, kw_only=True):
    """A peer does not answer where addresses of Ethernet decide."""

    KIND: ClassVar[str] = "deduced.gid-suspected"
    firm: bool
    """Whether the address is surely wrong."""
    why: str
    """The reason, in words."""


class DeducedPortFlaps(LogRecord, frozen=True, kw_only=True):
    """A network port went down more than once, or stays down."""

    KIND: ClassVar[str] = "deduced.port-flaps"
    device: str
    why: str
    """The reason, in words."""


class DeducedPcieError(LogRecord, frozen=True, kw_only=True):
    """An error of PCIe that loses data."""

    KIND: ClassVar[str] = "deduced.pcie-error"
    message: str


class DeducedCollectivesDiffer(LogRecord, frozen=True, kw_only=True):
    """Ranks part at one number of their sequence."""

    KIND: ClassVar[str] = "deduced.collectives-differ"
    seq: int | str
    """Number in the sequence of collectives."""
    why: str
    """The reason, in words."""


class DeducedStragglers(LogRecord, frozen=True, kw_only=True):
    """Ranks never came to a collective for which others wait."""

    KIND: ClassVar[str] = "deduced.stragglers"
    names: str
    """Names, separated by commas."""
    op: str | None = None
    seq: int | None = None
    """Number in the sequence of collectives."""
    late_in: str | None = None
    """What they wait for themselves, in words."""


class DeducedIneffectiveVariable(LogRecord, frozen=True, kw_only=True):
    """A variable does not do what it should."""

    KIND: ClassVar[str] = "deduced.ineffective-variable"
    name: str
    firm: bool
    """Whether it surely has no effect."""
    why: str
    """The reason, in words."""
    fix: str
    """What to do instead."""


class DeducedLeftoverVariable(LogRecord, frozen=True, kw_only=True):
    """A variable for debugging is still set."""

    KIND: ClassVar[str] = "deduced.leftover-variable"
    name: str
    value: str
    why: str
    """The reason, in words."""


class DeducedWrongResults(LogRecord, frozen=True, kw_only=True):
    """The results of a collective are wrong."""

    KIND: ClassVar[str] = "deduced.wrong-results"
    wrong: int
    """How many values are wrong."""
    why: str
    """The reason, in words."""


class DeducedBandwidthFailed(LogRecord, frozen=True, kw_only=True):
    """A test did not reach the minimum that it was given."""

    KIND: ClassVar[str] = "deduced.bandwidth-failed"
    what: str
    """What it is about."""
    value: str
    why: str
    """The reason, in words."""


class DeducedBandwidthCliff(LogRecord, frozen=True, kw_only=True):
    """Bandwidth collapses above a size."""

    KIND: ClassVar[str] = "deduced.bandwidth-cliff"
    what: str
    """What it is about."""
    value: str
    expected: str
    """What is expected."""
    why: str
    """The reason, in words."""


class DeducedBandwidthLow(LogRecord, frozen=True, kw_only=True):
    """Bandwidth is less than this hardware reaches elsewhere."""

    KIND: ClassVar[str] = "deduced.bandwidth-low"
    what: str
    """What it is about."""
    value: str
    expected: str
    """What is expected."""
    fraction: float
    """Of what is expected."""


class DeducedSlowPeer(LogRecord, frozen=True, kw_only=True):
    """A GPU or pair is far behind the others."""

    KIND: ClassVar[str] = "deduced.slow-peer"
    what: str
    """What it is about."""
    value: str
    expected: str
    """What is expected."""


class DeducedRanksNotTold(LogRecord, frozen=True, kw_only=True):
    """No line speaks of some ranks."""

    KIND: ClassVar[str] = "deduced.ranks-not-told"
    have: int
    """How many ranks are spoken of."""
    ranks: int
    """Ranks of the communicator."""
    names: str
    """Names, separated by commas."""


class DeducedWaitsAtStart(LogRecord, frozen=True, kw_only=True):
    """Ranks begin to initialise, and nothing follows."""

    KIND: ClassVar[str] = "deduced.waits-at-start"
    ranks: int
    """Ranks of the communicator."""


class DeducedWaitsForRanks(LogRecord, frozen=True, kw_only=True):
    """Most ranks begin to initialise and wait for others that never come."""

    KIND: ClassVar[str] = "deduced.waits-for-ranks"
    names: str
    """Names, separated by commas."""
    ranks: int
    """Ranks of the communicator."""


class DeducedSilenceAfterInit(LogRecord, frozen=True, kw_only=True):
    """Nothing follows an initialisation until the job was ended from outside."""

    KIND: ClassVar[str] = "deduced.silence-after-init"
    why: str
    """The reason, in words."""
    complete: int | None = None
    """How many ranks completed."""
    ranks: int | None = None
    """Ranks of the communicator."""
    stage: str | None = None
    """`during`, where no line says that the initialisation is done."""


class DeducedEndsAfterInit(LogRecord, frozen=True, kw_only=True):
    """The log ends with an initialisation."""

    KIND: ClassVar[str] = "deduced.ends-after-init"
    why: str
    """The reason, in words."""
    complete: int | None = None
    """How many ranks completed."""
    ranks: int | None = None
    """Ranks of the communicator."""
    stage: str | None = None
    """`during`, where no line says that the initialisation is done."""


class DeducedStopsAtP2p(LogRecord, frozen=True, kw_only=True):
    """The log stops while peer-to-peer channels are connected."""

    KIND: ClassVar[str] = "deduced.stops-at-p2p"
    why: str
    """The reason, in words."""


class DeducedKilledFirst(LogRecord, frozen=True, kw_only=True):
    """A task was killed before anything else failed."""

    KIND: ClassVar[str] = "deduced.killed-first"
    node: str
    tasks: str
    """Numbers of the tasks."""
    reason: str
    """Name of the signal."""
    signal: int | None = None
    """Number or name of the signal."""


class DeducedGpuShared(LogRecord, frozen=True, kw_only=True):
    """Ranks of one host share a GPU."""

    KIND: ClassVar[str] = "deduced.gpu-shared"
    names: str
    """Names, separated by commas."""
    bus: str


class DeducedShmWithinNode(LogRecord, frozen=True, kw_only=True):
    """GPUs of a node reach each other through shared memory alone."""

    KIND: ClassVar[str] = "deduced.shm-within-node"
    how: str
    """How they reach each other."""
    a: int | None = None
    """Number of the first GPU."""
    b: int | None = None
    """Number of the second GPU."""


class DeducedFlatTopology(LogRecord, frozen=True, kw_only=True):
    """Each GPU is alone in its PCI domain."""

    KIND: ClassVar[str] = "deduced.flat-topology"
    why: str
    """The reason, in words."""


class DeducedFabricDegraded(LogRecord, frozen=True, kw_only=True):
    """The fabric of NVLinks between nodes is degraded."""

    KIND: ClassVar[str] = "deduced.fabric-degraded"
    health_mask: str
    """Mask of the fabric's health."""
    why: str
    """The reason, in words."""


class DeducedXid(LogRecord, frozen=True, kw_only=True):
    """An error that the driver reports, and what to do about it."""

    KIND: ClassVar[str] = "deduced.xid"
    severity: str
    """How bad it is."""
    action: str
    """What to do."""
    name: str
    xid: int | None = None
    """Number of the error."""
    bus: str | None = None
    process: str | None = None


class DeducedSwitchError(LogRecord, frozen=True, kw_only=True):
    """Errors of NVSwitches."""

    KIND: ClassVar[str] = "deduced.switch-error"
    fatal: int
    """Whether it ends the run."""
    bus: str
    link: str
    why: str
    """The reason, in words."""


class DeducedDriverOlderThanCuda(LogRecord, frozen=True, kw_only=True):
    """The driver is of an older major version of CUDA than NCCL."""

    KIND: ClassVar[str] = "deduced.driver-older-than-cuda"
    found: str
    """What was met instead."""
    needed: str
    """What is needed."""


class DeducedVersionsDiffer(LogRecord, frozen=True, kw_only=True):
    """Hosts use different versions of NCCL."""

    KIND: ClassVar[str] = "deduced.versions-differ"
    versions: str
    """Versions with their hosts."""
