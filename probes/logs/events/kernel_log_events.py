"""Records of the kernel log.

`probes/parsers/kernel/kernel_grammar.py` describes the lines of each kind.
"""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class KernelRecord(LogRecord, kw_only=True):
    """The base of all records of the kernel log."""


class KernelDriver(KernelRecord, kw_only=True):
    """The GPU driver's module that was loaded."""

    KIND: ClassVar[str] = "kernel.driver"
    version: str


class KernelNicFirmware(KernelRecord, kw_only=True):
    """The firmware of an mlx card."""

    KIND: ClassVar[str] = "kernel.nic-firmware"
    bus: str
    version: str


class KernelPcieLink(KernelRecord, kw_only=True):
    """A card whose PCIe link is as fast as the card."""

    KIND: ClassVar[str] = "kernel.pcie-link"
    bus: str
    gbit_per_s: float
    link: str
    """`32.0 GT/s PCIe x16`."""


class KernelXid(KernelRecord, kw_only=True):
    """An error of a GPU. Name, class and severity stand in `probes/data/xid.toml`."""

    KIND: ClassVar[str] = "kernel.xid"
    xid: int
    bus: str | None = None
    xid_class: str = "unknown"
    """`application`, `reset`, `hardware`, `link`, `driver`, `informational` or `unknown`."""
    name: str | None = None
    severity: str | None = None
    message: str | None = None
    """The line; None for errors of programs, of which each has words of its own."""
    sub_code: int | None = None
    unit: str | None = None
    link: int | None = None
    fatal: int | None = None
    """1 or 0 by the line itself, of NVLink 5 alone."""
    process: str | None = None
    pid: int | None = None
    caused_by: int | None = None
    action: str | None = None


class KernelSxid(KernelRecord, kw_only=True):
    """An error of an NVSwitch."""

    KIND: ClassVar[str] = "kernel.sxid"
    sxid: int
    bus: str | None = None
    fatal: int | None = None
    """1 or 0 by the line, else by `probes/data/xid.toml`."""
    part: str | None = None
    link: int | None = None


class KernelGsp(KernelRecord, kw_only=True):
    """A GPU's system processor that does not answer."""

    KIND: ClassVar[str] = "kernel.gsp"
    message: str
    bus: str | None = None


class KernelGpuLost(KernelRecord, kw_only=True):
    """A GPU that has fallen off the bus, without an Xid."""

    KIND: ClassVar[str] = "kernel.gpu-lost"
    what: str
    bus: str | None = None


class KernelNvrm(KernelRecord, kw_only=True):
    """A complaint of the GPU driver without an Xid: `RmInitAdapter failed`, `API mismatch` and others."""

    KIND: ClassVar[str] = "kernel.nvrm"
    what: str
    event: str
    bus: str | None = None
    client: str | None = None
    """Version of the library, where it differs from that of the module."""
    module: str | None = None


class KernelPeermem(KernelRecord, kw_only=True):
    """A complaint of nvidia-peermem: `context`, `load` or `other`."""

    KIND: ClassVar[str] = "kernel.peermem"
    what: str


class KernelNvswitch(KernelRecord, kw_only=True):
    """A complaint of the NVSwitch driver without an SXid."""

    KIND: ClassVar[str] = "kernel.nvswitch"
    device: str
    event: str


class KernelAer(KernelRecord, kw_only=True):
    """An error of a PCIe link: corrected, uncorrected, fatal, contained, unplugged."""

    KIND: ClassVar[str] = "kernel.aer"
    severity: str
    bus: str | None = None


class KernelPcieLimited(KernelRecord, kw_only=True):
    """A card whose PCIe link is slower than the card."""

    KIND: ClassVar[str] = "kernel.pcie-limited"
    bus: str | None = None
    available_gbit_per_s: float | None = None
    capable_gbit_per_s: float | None = None
    limited_by: str | None = None
    link: str | None = None
    """Link that limits the card: `16.0 GT/s PCIe x16`."""


class KernelSlotPower(KernelRecord, kw_only=True):
    """A card that finds too little power on its slot."""

    KIND: ClassVar[str] = "kernel.slot-power"
    bus: str | None = None


class KernelIommuFault(KernelRecord, kw_only=True):
    """A transfer that the IOMMU refused."""

    KIND: ClassVar[str] = "kernel.iommu-fault"
    bus: str | None = None


class KernelLink(KernelRecord, kw_only=True):
    """A network link that went `up` or `down`."""

    KIND: ClassVar[str] = "kernel.link"
    device: str
    state: str


class KernelCable(KernelRecord, kw_only=True):
    """A cable or module that is missing, at fault or too hot."""

    KIND: ClassVar[str] = "kernel.cable"
    what: str
    bus: str | None = None


class KernelMlx(KernelRecord, kw_only=True):
    """An mlx4 or mlx5 card that its driver gave up, or a queue or command of it that hung."""

    KIND: ClassVar[str] = "kernel.mlx5"
    what: str
    event: str
    fatal: int
    bus: str | None = None


class KernelNic(KernelRecord, kw_only=True):
    """The same of another network card."""

    KIND: ClassVar[str] = "kernel.nic"
    what: str
    event: str
    fatal: int
    bus: str | None = None


class KernelLimit(KernelRecord, kw_only=True):
    """A table of the kernel that is full."""

    KIND: ClassVar[str] = "kernel.limit"
    what: str


class KernelOomKill(KernelRecord, kw_only=True):
    """A process that the kernel killed for want of memory, or that called for it."""

    KIND: ClassVar[str] = "kernel.oom-kill"
    process: str | None = None
    victim: int | None = None
    """Process id."""
    scope: str | None = None
    """`cgroup` or `host`."""


class KernelLockup(KernelRecord, kw_only=True):
    """A processor or task that stood still."""

    KIND: ClassVar[str] = "kernel.lockup"
    what: str


class KernelMachineCheck(KernelRecord, kw_only=True):
    """An error of processor or memory."""

    KIND: ClassVar[str] = "kernel.machine-check"
    event: str
    what: str | None = None
    fatal: int | None = None


class KernelFilesystem(KernelRecord, kw_only=True):
    """A file system at fault, or a server that does not answer; `fatal` is 1 where it became read-only."""

    KIND: ClassVar[str] = "kernel.filesystem"
    event: str
    device: str = ""
    fatal: int | None = None


class KernelFilesystemBack(KernelRecord, kw_only=True):
    """A server that answers again."""

    KIND: ClassVar[str] = "kernel.filesystem-back"
    device: str


class KernelStorage(KernelRecord, kw_only=True):
    """A disk that fails or complains."""

    KIND: ClassVar[str] = "kernel.storage"
    event: str
    device: str = ""


class KernelPanic(KernelRecord, kw_only=True):
    """A crash of the kernel itself."""

    KIND: ClassVar[str] = "kernel.panic"
    event: str


class KernelSegfault(KernelRecord, kw_only=True):
    """A crash in NCCL or a library of training, or of a training program."""

    KIND: ClassVar[str] = "kernel.segfault"
    process: str
    library: str | None = None
