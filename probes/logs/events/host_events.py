"""Records of reports by diagnostics and tools about a host and its GPUs."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class HostRecord(LogRecord, kw_only=True):
    """The base of what tools and health checks report of a host."""


class DcgmRecord(LogRecord, kw_only=True):
    """The base of what DCGM reports."""


class NvlinkRecord(LogRecord, kw_only=True):
    """The base of what `nvidia-smi nvlink` reports of one GPU."""

    gpu: int
    name: str | None = None
    """Model of the GPU."""


class _DcgmTest(DcgmRecord, kw_only=True):
    """One test of DCGM that did not pass."""

    test: str
    gpu: int | None = None
    """Number of the GPU; None where the host was tested."""
    reason: str | None = None
    error: int | None = None
    """DCGM's number of the error."""


class DcgmFailure(_DcgmTest, kw_only=True):
    """A test of DCGM failed."""

    KIND: ClassVar[str] = "dcgm.failure"


class DcgmWarning(_DcgmTest, kw_only=True):
    """A test of DCGM warns."""

    KIND: ClassVar[str] = "dcgm.warning"


class DcgmSummary(DcgmRecord, kw_only=True):
    """All tests of a report of DCGM."""

    KIND: ClassVar[str] = "dcgm.summary"
    passed: int
    failed: int
    warned: int
    skipped: int


class DcgmMachine(DcgmRecord, kw_only=True):
    """The machine that a DCGM report describes."""

    KIND: ClassVar[str] = "dcgm.machine"
    version: str | None = None
    driver: str | None = None
    """Version or name of the driver."""
    gpus: int | None = None


class DcgmUnreadable(DcgmRecord, kw_only=True):
    """A report of DCGM holds no result that can be read."""

    KIND: ClassVar[str] = "dcgm.unreadable"
    reason: str


class NvlinkGpu(NvlinkRecord, kw_only=True):
    """The NVLinks of a GPU."""

    KIND: ClassVar[str] = "nvlink.gpu"
    up: int
    down: int
    disabled: int
    gbps: float | None = None
    """Sum of one direction in GB/s of 1e9 bytes."""


class NvlinkLinkDown(NvlinkRecord, kw_only=True):
    """A link is down beside others that are up."""

    KIND: ClassVar[str] = "nvlink.link-down"
    link: int | None = None


class NvlinkAllDown(NvlinkRecord, kw_only=True):
    """No NVLink of a GPU is up.

    This is a fault on machines with NVSwitches and normal for a card without a bridge.
    """

    KIND: ClassVar[str] = "nvlink.all-down"


class NvlinkErrors(NvlinkRecord, kw_only=True):
    """A counter of a link is above 0."""

    KIND: ClassVar[str] = "nvlink.errors"
    link: int | None = None
    counter: str
    """`crc`, `replay` or `recovery`."""
    count: int


class NvlinkNoErrors(NvlinkRecord, kw_only=True):
    """All counters that were printed are 0."""

    KIND: ClassVar[str] = "nvlink.no-errors"


class NvlinkNone(NvlinkRecord, kw_only=True):
    """A GPU has no links, or does not report them."""

    KIND: ClassVar[str] = "nvlink.none"
    reason: str | None = None


class HostPortRate(HostRecord, kw_only=True):
    """The rate of an active network port."""

    KIND: ClassVar[str] = "host.port-rate"
    device: str
    port: int
    gbit_per_s: float
    """Gbit/s of 1e9 bits."""


class PciAcs(LogRecord, kw_only=True):
    """A PCIe port sends peer-to-peer traffic through the root complex."""

    KIND: ClassVar[str] = "pci.acs"
    redirect: bool
    """Whether requests or completions are redirected."""


class HostMemlock(HostRecord, kw_only=True):
    """The limit of locked memory."""

    KIND: ClassVar[str] = "host.memlock"
    unlimited: bool
    """Whether there is no limit."""
    kib: int | None = None
    """The limit in KiB; None if there is none."""


class HostShm(HostRecord, kw_only=True):
    """The size of /dev/shm."""

    KIND: ClassVar[str] = "host.shm"
    bytes: int
    used_percent: int
    """Share that is used, in percent."""


class HostOomKill(HostRecord, kw_only=True):
    """A process of a service or scope was killed for memory."""

    KIND: ClassVar[str] = "host.oom-kill"
    process: str
    """The service or scope."""


class HealthCheckFailed(HostRecord, kw_only=True):
    """A health check of the node failed."""

    KIND: ClassVar[str] = "health_check.failed"
    check: str
    reason: str
    code: str | None = None
    """Fault code."""


class HealthCheckPassed(HostRecord, kw_only=True):
    """A health check of the node passed."""

    KIND: ClassVar[str] = "health_check.passed"
    check: str


class GpuBurnTested(HostRecord, kw_only=True):
    """gpu-burn tested GPUs."""

    KIND: ClassVar[str] = "gpu_burn.tested"
    gpus: int


class GpuBurnFaulty(HostRecord, kw_only=True):
    """gpu-burn calls a GPU faulty."""

    KIND: ClassVar[str] = "gpu_burn.faulty"
    gpu: int
    state: str
    """`FAULTY` or `NO RESULTS`."""
