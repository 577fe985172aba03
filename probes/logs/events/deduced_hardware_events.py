"""Records of deductions about GPUs, their links, drivers and speed."""

from probes.logs.events.log_record import LogRecord, Reasoned


class DeducedPcieError(LogRecord, kw_only=True, tag="deduced.pcie-error"):
    """A PCIe error that the hardware could not correct."""

    message: str


class DeducedGpuShared(LogRecord, kw_only=True, tag="deduced.gpu-shared"):
    """Ranks of one host share a GPU."""

    names: str
    """The ranks, separated by commas."""
    bus: str


class DeducedShmWithinNode(LogRecord, kw_only=True, tag="deduced.shm-within-node"):
    """GPUs of a node communicate only through shared host memory."""

    how: str
    """Description of the evidence: the log's lines about channels or peer-to-peer."""
    a: int | None = None
    """Rank of the sending GPU."""
    b: int | None = None
    """Rank of the receiving GPU."""


class DeducedFlatTopology(Reasoned, kw_only=True, tag="deduced.flat-topology"):
    """Each GPU is alone in its PCI domain."""


class DeducedFabricDegraded(Reasoned, kw_only=True, tag="deduced.fabric-degraded"):
    """The NVLink fabric is degraded."""

    health_mask: str
    """Mask of the fabric's health."""


class DeducedXid(LogRecord, kw_only=True, tag="deduced.xid"):
    """An Xid error that the driver reports, and the recommended action."""

    severity: str
    """Severity of the error."""
    action: str
    """Recommended action."""
    name: str
    xid: int | None = None
    """Number of the error."""
    bus: str | None = None
    process: str | None = None
    followers: str | None = None
    """Later Xids that are effects of this Xid."""


class DeducedSwitchError(Reasoned, kw_only=True, tag="deduced.switch-error"):
    """Errors of NVSwitches."""

    fatal: int
    """1 if any of the errors is fatal, else 0."""
    bus: str
    link: str


class DeducedDriverOlderThanCuda(LogRecord, kw_only=True, tag="deduced.driver-older-than-cuda"):
    """The driver supports an older major version of CUDA than NCCL needs."""

    actual: str
    """CUDA version of the driver."""
    needed: str
    """CUDA version that NCCL was built for."""


class DeducedVersionsDiffer(LogRecord, kw_only=True, tag="deduced.versions-differ"):
    """Hosts use different versions of NCCL."""

    versions: str
    """Versions with their hosts."""


class DeducedWrongResults(Reasoned, kw_only=True, tag="deduced.wrong-results"):
    """The results of a collective are wrong."""

    wrong: int
    """Number of wrong values."""


class DeducedBandwidthFailed(Reasoned, kw_only=True, tag="deduced.bandwidth-failed"):
    """A test did not reach its required minimum."""

    what: str
    """Subject of the measurement."""
    value: str


class DeducedBandwidthCliff(Reasoned, kw_only=True, tag="deduced.bandwidth-cliff"):
    """The bandwidth collapses for messages from a size on."""

    what: str
    """Subject of the measurement."""
    value: str
    expected: str
    """Expected value."""


class DeducedBandwidthLow(LogRecord, kw_only=True, tag="deduced.bandwidth-low"):
    """The bandwidth is lower than the reference for the same hardware."""

    what: str
    """Subject of the measurement."""
    value: str
    expected: str
    """Expected value."""
    fraction: float
    """Measured value divided by the expected value."""


class DeducedSlowPeer(LogRecord, kw_only=True, tag="deduced.slow-peer"):
    """A GPU, or a pair of GPUs, is much slower than the others."""

    what: str
    """Subject of the measurement."""
    value: str
    expected: str
    """Expected value."""
