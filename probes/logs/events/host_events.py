"""Records of what diagnostics and tools report about a host and its GPUs."""

from probes.logs.events.log_record import LogRecord


class HostRecord(LogRecord, kw_only=True):
    """The base of records that tools and health checks report about a host."""


class DcgmRecord(LogRecord, kw_only=True):
    """The base of records that DCGM reports."""


class NvlinkRecord(LogRecord, kw_only=True):
    """The base of records that `nvidia-smi nvlink` reports about one GPU."""

    gpu: int
    name: str | None = None
    """Model of the GPU."""


class _DcgmTest(DcgmRecord, kw_only=True):
    """One test of DCGM that did not pass."""

    test: str
    gpu: int | None = None
    """Number of the GPU; None if the host was tested."""
    reason: str | None = None
    error: int | None = None
    """DCGM's number of the error."""


class DcgmFailure(_DcgmTest, kw_only=True, tag="dcgm.failure"):
    """A test of DCGM failed."""


class DcgmWarning(_DcgmTest, kw_only=True, tag="dcgm.warning"):
    """A test of DCGM warns."""


class DcgmSummary(DcgmRecord, kw_only=True, tag="dcgm.summary"):
    """The numbers of test results in a DCGM report."""

    passed: int
    failed: int
    warned: int
    skipped: int


class DcgmMachine(DcgmRecord, kw_only=True, tag="dcgm.machine"):
    """The machine that a DCGM report describes."""

    version: str | None = None
    driver: str | None = None
    """Version or name of the driver."""
    gpus: int | None = None


class DcgmUnreadable(DcgmRecord, kw_only=True, tag="dcgm.unreadable"):
    """A report of DCGM contains no readable result."""

    reason: str


class NvlinkGpu(NvlinkRecord, kw_only=True, tag="nvlink.gpu"):
    """The NVLinks of a GPU."""

    up: int
    down: int
    disabled: int
    gbps: float | None = None
    """Sum over all links for one direction, in GB/s of 1e9 bytes."""


class NvlinkLinkDown(NvlinkRecord, kw_only=True, tag="nvlink.link-down"):
    """A link is down, while other links of the GPU are up."""

    link: int | None = None


class NvlinkAllDown(NvlinkRecord, kw_only=True, tag="nvlink.all-down"):
    """No NVLink of a GPU is up.

    This is a fault on machines with NVSwitches and normal for a card without a bridge.
    """


class NvlinkErrors(NvlinkRecord, kw_only=True, tag="nvlink.errors"):
    """A counter of a link is above 0."""

    link: int | None = None
    counter: str
    """`crc`, `replay` or `recovery`."""
    count: int


class NvlinkNoErrors(NvlinkRecord, kw_only=True, tag="nvlink.no-errors"):
    """All printed error counters are 0."""


class NvlinkNone(NvlinkRecord, kw_only=True, tag="nvlink.none"):
    """A GPU has no links, or does not report them."""

    reason: str | None = None


class HostPortRate(HostRecord, kw_only=True, tag="host.port-rate"):
    """The rate of an active network port."""

    device: str
    port: int
    gbit_per_s: float
    """Gbit/s; a Gbit is 1e9 bits."""


class PciAcs(LogRecord, kw_only=True, tag="pci.acs"):
    """Access control (ACS) of a PCIe port, which can send peer-to-peer traffic through the root complex."""

    redirect: bool
    """True if requests or completions are redirected."""


class HostMemlock(HostRecord, kw_only=True, tag="host.memlock"):
    """The limit of locked memory."""

    unlimited: bool
    """True if there is no limit."""
    kib: int | None = None
    """The limit in KiB; None if there is none."""


class HostShm(HostRecord, kw_only=True, tag="host.shm"):
    """The size of /dev/shm."""

    bytes: int
    used_percent: int
    """Used share in percent."""


class HostOomKill(HostRecord, kw_only=True, tag="host.oom-kill"):
    """A process of a service or scope was killed because memory ran out."""

    process: str
    """The service or scope."""


class HealthCheckFailed(HostRecord, kw_only=True, tag="health_check.failed"):
    """A health check of the node failed."""

    check: str
    reason: str
    code: str | None = None
    """Fault code."""


class HealthCheckPassed(HostRecord, kw_only=True, tag="health_check.passed"):
    """A health check of the node passed."""

    check: str


class GpuBurnTested(HostRecord, kw_only=True, tag="gpu_burn.tested"):
    """gpu-burn tested GPUs."""

    gpus: int


class GpuBurnFaulty(HostRecord, kw_only=True, tag="gpu_burn.faulty"):
    """gpu-burn calls a GPU faulty."""

    gpu: int
    state: str
    """`FAULTY` or `NO RESULTS`."""
