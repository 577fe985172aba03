"""Records of the kernel log and of the log of NVIDIA's Fabric Manager.

`probes/parsers/kernel/kernel_grammar.py` describes the kernel's lines of each kind.
"""

from probes.logs.events.log_record import LogRecord


class KernelRecord(LogRecord, kw_only=True):
    """The base of all records of the kernel log."""


class KernelDriver(KernelRecord, kw_only=True, tag="kernel.driver"):
    """The GPU driver module that was loaded."""

    version: str


class KernelNicFirmware(KernelRecord, kw_only=True, tag="kernel.nic-firmware"):
    """The firmware of an mlx card."""

    bus: str
    version: str


class KernelPcieLink(KernelRecord, kw_only=True, tag="kernel.pcie-link"):
    """A card whose PCIe link is as fast as the card supports."""

    bus: str
    gbit_per_s: float
    link: str
    """`32.0 GT/s PCIe x16`."""


class KernelXid(KernelRecord, kw_only=True, tag="kernel.xid"):
    """An error of a GPU. Name, class and severity are from `probes/data/xid.toml`."""

    xid: int
    bus: str | None = None
    xid_class: str = "unknown"
    """`application`, `reset`, `hardware`, `link`, `driver`, `informational` or `unknown`."""
    name: str | None = None
    severity: str | None = None
    message: str | None = None
    """The line; None for errors of programs, because every such error has a different text."""
    sub_code: int | None = None
    unit: str | None = None
    link: int | None = None
    fatal: int | None = None
    """1 if the error is fatal, else 0; only lines of NVLink 5 report this."""
    process: str | None = None
    pid: int | None = None
    caused_by: int | None = None
    action: str | None = None
    after: int | None = None
    """Earlier Xid of the same GPU of which this Xid is the effect."""
    followers: str | None = None
    """Later Xids that are effects of this Xid: `154, 45 (3 lines)`."""


class KernelSxid(KernelRecord, kw_only=True, tag="kernel.sxid"):
    """An error of an NVSwitch."""

    sxid: int
    bus: str | None = None
    fatal: int | None = None
    """1 if the error is fatal, else 0; from the line, or else from `probes/data/xid.toml`."""
    part: str | None = None
    link: int | None = None


class KernelGsp(KernelRecord, kw_only=True, tag="kernel.gsp"):
    """A GPU's system processor that does not answer."""

    message: str
    bus: str | None = None


class KernelGpuLost(KernelRecord, kw_only=True, tag="kernel.gpu-lost"):
    """A GPU that has fallen off the bus, without an Xid."""

    what: str
    bus: str | None = None


class KernelNvrm(KernelRecord, kw_only=True, tag="kernel.nvrm"):
    """A complaint of the GPU driver without an Xid: `RmInitAdapter failed`, `API mismatch` and others."""

    what: str
    event: str
    bus: str | None = None
    client: str | None = None
    """Version of the user-space library if it differs from the version of the kernel module."""
    module: str | None = None


class KernelAmdgpu(KernelRecord, kw_only=True, tag="kernel.amdgpu"):
    """A fault that the driver of an AMD GPU reports: `page fault`, `ring timeout` and others."""

    what: str
    event: str
    bus: str | None = None
    process: str | None = None
    pid: int | None = None
    client: str | None = None
    """Unit of the GPU that made a faulty access."""


class KernelDevice(KernelRecord, kw_only=True, tag="kernel.device"):
    """A PCI device that cannot be reached or set up."""

    what: str
    event: str
    bus: str | None = None


class KernelClock(KernelRecord, kw_only=True, tag="kernel.clock"):
    """A clock source of the processors that the kernel stopped using."""

    event: str


class KernelUnread(KernelRecord, kw_only=True, tag="kernel.unread"):
    """A line that no row of the grammar describes, but that contains a word such as `error` or `failed`.

    Many harmless lines contain such words too.
    """

    message: str


class KernelDriverFailed(KernelRecord, kw_only=True, tag="kernel.driver-failed"):
    """A failure that a device's driver reports in its own words, and that no row of the grammar describes."""

    driver: str
    bus: str
    message: str


class KernelPeermem(KernelRecord, kw_only=True, tag="kernel.peermem"):
    """A complaint of nvidia-peermem: `context`, `load` or `other`."""

    what: str


class KernelNvswitch(KernelRecord, kw_only=True, tag="kernel.nvswitch"):
    """A complaint of the NVSwitch driver without an SXid."""

    device: str
    event: str


class KernelAer(KernelRecord, kw_only=True, tag="kernel.aer"):
    """An error of a PCIe link: corrected, uncorrected, fatal, contained, unplugged."""

    severity: str
    bus: str | None = None


class KernelPcieLimited(KernelRecord, kw_only=True, tag="kernel.pcie-limited"):
    """A card whose PCIe link is slower than the card supports."""

    bus: str | None = None
    available_gbit_per_s: float | None = None
    capable_gbit_per_s: float | None = None
    limited_by: str | None = None
    link: str | None = None
    """Link that limits the card: `16.0 GT/s PCIe x16`."""


class KernelSlotPower(KernelRecord, kw_only=True, tag="kernel.slot-power"):
    """A card that reports too little power from its slot."""

    bus: str | None = None


class KernelIommuFault(KernelRecord, kw_only=True, tag="kernel.iommu-fault"):
    """A transfer that the IOMMU refused."""

    bus: str | None = None
    driver: str | None = None
    """The driver of the device, which newer kernels print."""


class KernelLink(KernelRecord, kw_only=True, tag="kernel.link"):
    """A network link that went `up` or `down`."""

    device: str
    state: str


class KernelCable(KernelRecord, kw_only=True, tag="kernel.cable"):
    """A cable or module that is missing, faulty or too hot."""

    what: str
    bus: str | None = None


class KernelMlx(KernelRecord, kw_only=True, tag="kernel.mlx5"):
    """An mlx4 or mlx5 card that failed, or one of its queues or commands that hung."""

    what: str
    event: str
    fatal: int
    bus: str | None = None


class KernelNic(KernelRecord, kw_only=True, tag="kernel.nic"):
    """Another network card that failed, or one of its queues or commands that hung."""

    what: str
    event: str
    fatal: int
    bus: str | None = None


class KernelLimit(KernelRecord, kw_only=True, tag="kernel.limit"):
    """A table of the kernel that is full."""

    what: str


class KernelOomKill(KernelRecord, kw_only=True, tag="kernel.oom-kill"):
    """A process that the kernel killed for lack of memory, or whose memory request led to a kill."""

    process: str | None = None
    victim: int | None = None
    """Process id."""
    scope: str | None = None
    """`cgroup` or `host`."""


class KernelLockup(KernelRecord, kw_only=True, tag="kernel.lockup"):
    """A processor or task that hangs."""

    what: str


class KernelMachineCheck(KernelRecord, kw_only=True, tag="kernel.machine-check"):
    """A hardware error of the processor or the memory."""

    event: str
    what: str | None = None
    fatal: int | None = None


class KernelFilesystem(KernelRecord, kw_only=True, tag="kernel.filesystem"):
    """A faulty file system, or a server that does not answer; `fatal` is 1 if it became read-only."""

    event: str
    device: str = ""
    fatal: int | None = None


class KernelFilesystemBack(KernelRecord, kw_only=True, tag="kernel.filesystem-back"):
    """A server that answers again."""

    device: str


class KernelStorage(KernelRecord, kw_only=True, tag="kernel.storage"):
    """A disk that fails or complains."""

    event: str
    device: str = ""


class KernelPanic(KernelRecord, kw_only=True, tag="kernel.panic"):
    """A crash of the kernel itself."""

    event: str


class KernelSegfault(KernelRecord, kw_only=True, tag="kernel.segfault"):
    """A crash in NCCL, in another library used for training, or in a training program."""

    process: str
    library: str | None = None


class FabricManagerRecord(LogRecord, kw_only=True):
    """The base of all records of the Fabric Manager."""


class FabricSwitchError(FabricManagerRecord, kw_only=True, tag="fabric_manager.switch-error"):
    """An error of an NVSwitch, by its SXid number."""

    error: int
    fatal: int
    """1 or 0."""
    bus: str | None = None
    port: int | None = None


class FabricMismatch(FabricManagerRecord, kw_only=True, tag="fabric_manager.mismatch"):
    """The versions of the Fabric Manager and the driver differ."""

    reason: str
    version: str | None = None
    driver: str | None = None


class FabricFailed(FabricManagerRecord, kw_only=True, tag="fabric_manager.failed"):
    """A failure that has no record of its own; `aborted` is 1 if the Fabric Manager gave up, else 0."""

    reason: str
    aborted: int


class FabricMulticast(FabricManagerRecord, kw_only=True, tag="fabric_manager.multicast"):
    """A multicast team (NVLink SHARP) that could not be set up."""

    reason: str


class FabricTeam(FabricManagerRecord, kw_only=True, tag="fabric_manager.team"):
    """A multicast team that was set up."""


class FabricStarted(FabricManagerRecord, kw_only=True, tag="fabric_manager.started"):
    """A start of the Fabric Manager."""

    version: str


class FabricConfigured(FabricManagerRecord, kw_only=True, tag="fabric_manager.configured"):
    """All switches are set up."""


class FabricRunning(FabricManagerRecord, kw_only=True, tag="fabric_manager.running"):
    """systemd reports that the service runs."""


class FabricDevice(FabricManagerRecord, kw_only=True, tag="fabric_manager.device"):
    """A `switch` or `gpu` of the inventory."""

    kind: str
    bus: str
