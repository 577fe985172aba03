"""Records of deductions about GPUs, their links and drivers, and how fast they are."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord, Reasoned


class DeducedPcieError(LogRecord, kw_only=True):
    """An error of PCIe that loses data."""

    KIND: ClassVar[str] = "deduced.pcie-error"
    message: str


class DeducedGpuShared(LogRecord, kw_only=True):
    """Ranks of one host share a GPU."""

    KIND: ClassVar[str] = "deduced.gpu-shared"
    names: str
    """Names, separated by commas."""
    bus: str


class DeducedShmWithinNode(LogRecord, kw_only=True):
    """GPUs of a node reach each other through shared memory alone."""

    KIND: ClassVar[str] = "deduced.shm-within-node"
    how: str
    """Way between the GPUs."""
    a: int | None = None
    """Number of the first GPU."""
    b: int | None = None
    """Number of the second GPU."""


class DeducedFlatTopology(Reasoned, kw_only=True):
    """Each GPU is alone in its PCI domain."""

    KIND: ClassVar[str] = "deduced.flat-topology"


class DeducedFabricDegraded(Reasoned, kw_only=True):
    """The fabric of NVLinks between nodes is degraded."""

    KIND: ClassVar[str] = "deduced.fabric-degraded"
    health_mask: str
    """Mask of the fabric's health."""


class DeducedXid(LogRecord, kw_only=True):
    """An error that the driver reports, and what to do about it."""

    KIND: ClassVar[str] = "deduced.xid"
    severity: str
    """Severity of the error."""
    action: str
    """Recommended action."""
    name: str
    xid: int | None = None
    """Number of the error."""
    bus: str | None = None
    process: str | None = None


class DeducedSwitchError(Reasoned, kw_only=True):
    """Errors of NVSwitches."""

    KIND: ClassVar[str] = "deduced.switch-error"
    fatal: int
    """Whether it ends the run."""
    bus: str
    link: str


class DeducedDriverOlderThanCuda(LogRecord, kw_only=True):
    """The driver is of an older major version of CUDA than NCCL."""

    KIND: ClassVar[str] = "deduced.driver-older-than-cuda"
    actual: str
    """Value that was received instead."""
    needed: str
    """Required value."""


class DeducedVersionsDiffer(LogRecord, kw_only=True):
    """Hosts use different versions of NCCL."""

    KIND: ClassVar[str] = "deduced.versions-differ"
    versions: str
    """Versions with their hosts."""


class DeducedWrongResults(Reasoned, kw_only=True):
    """The results of a collective are wrong."""

    KIND: ClassVar[str] = "deduced.wrong-results"
    wrong: int
    """Number of wrong values."""


class DeducedBandwidthFailed(Reasoned, kw_only=True):
    """A test did not reach the minimum that it was given."""

    KIND: ClassVar[str] = "deduced.bandwidth-failed"
    what: str
    """Subject of the measurement."""
    value: str


class DeducedBandwidthCliff(Reasoned, kw_only=True):
    """Bandwidth collapses above a size."""

    KIND: ClassVar[str] = "deduced.bandwidth-cliff"
    what: str
    """Subject of the measurement."""
    value: str
    expected: str
    """Expected value."""


class DeducedBandwidthLow(LogRecord, kw_only=True):
    """Bandwidth is less than this hardware reaches elsewhere."""

    KIND: ClassVar[str] = "deduced.bandwidth-low"
    what: str
    """Subject of the measurement."""
    value: str
    expected: str
    """Expected value."""
    fraction: float
    """Share of the expected value."""


class DeducedSlowPeer(LogRecord, kw_only=True):
    """A GPU or pair is far behind the others."""

    KIND: ClassVar[str] = "deduced.slow-peer"
    what: str
    """Subject of the measurement."""
    value: str
    expected: str
    """Expected value."""
