"""Records of deductions about GPUs, their links and drivers, and how fast they are."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class DeducedPcieError(LogRecord, frozen=True, kw_only=True):
    """An error of PCIe that loses data."""

    KIND: ClassVar[str] = "deduced.pcie-error"
    message: str


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
