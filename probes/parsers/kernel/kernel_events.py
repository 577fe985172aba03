"""Records of the kernel log, one for each kind of line, and the form of the rows that read the lines.

The rows are in the modules that `kernel_grammar.py` lists, in its order. `check` counts the records into
events (`kernel_log.py`); `explain` turns them into its own events
(`probes/logs/readers/kernel_lines.py`).
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from probes.base.patterns import pattern
from probes.base.record import Record
from probes.facts.observed import EventKind

PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}"
"""PCI address without function, as the kernel prints it."""
_LEADING_PCI = pattern(rf"(?:\S{{1,40}} )?({PCI})\.[0-7]")

Maker = Callable[[re.Match[str]], "KernelEvent | None"]


class KernelEvent(Record, kw_only=True):
    """The content of one line of the kernel."""

    kind: ClassVar[EventKind]
    """The kind of event among the facts of a machine."""
    message: str
    """The line without its prefix, or the relevant part of the line."""
    device: str | None = None
    """PCI address without function (`0000:9b:00`), network interface, disk or server; or None."""
    fatal: bool | None = None
    """True if the error is fatal; None if the line does not state whether it is."""
    variant: str = ""
    """Distinguishes events: lines of one kind and device with different values are different events."""
    view: str = ""
    """The reporter. If several reporters print one event, only the reporter with the most lines counts."""
    adds: int = 1
    """Number of events that the line reports; 0 if the line continues an event of the lines before it."""


class XidError(KernelEvent, kw_only=True):
    """An error of a GPU by its number."""

    kind: ClassVar[EventKind] = "xid"
    xid: int
    sub_code: int | None = None
    """Fault of the unit, for an NVLink 5 Xid (144 to 150)."""
    unit: str | None = None
    """The part of the NVLink 5 logic that reports the error: `NETIR_LINK_EVT`."""
    link: int | None = None
    caused_by: int | None = None
    """The earlier Xid for which the driver stopped the program."""
    action: str | None = None
    """Recovery action that the driver requests from now on: `0x1 (GPU Reset Required)`."""
    pid: int | None = None
    process: str | None = None


class SwitchError(KernelEvent, kw_only=True):
    """An error of an NVSwitch by its number."""

    kind: ClassVar[EventKind] = "sxid"
    sxid: int
    link: int | None = None


class DriverComplaint(KernelEvent, kw_only=True):
    """An error of the GPU driver without a number; `variant` names it."""

    kind: ClassVar[EventKind] = "nvrm"
    client: str | None = None
    """Version of the library, if it differs from the version of the module."""
    module: str | None = None


class AmdgpuFault(KernelEvent, kw_only=True):
    """A fault that the driver of an AMD GPU reports; `variant` names the kind of fault."""

    kind: ClassVar[EventKind] = "amdgpu"
    process: str | None = None
    pid: int | None = None
    client: str | None = None
    """Unit of the GPU that made a faulty access: `TCP` (a kernel), `SDMA1` (a copy), `SQC` (code)."""


class DeviceError(KernelEvent, kw_only=True):
    """A PCI device that cannot be reached or set up; `variant` names the reason."""

    kind: ClassVar[EventKind] = "device-error"


class UnstableClock(KernelEvent, kw_only=True):
    """A clock source of the processors that the kernel stopped using."""

    kind: ClassVar[EventKind] = "clock"


class FirmwareTimeout(KernelEvent, kw_only=True):
    """A GPU's system processor (GSP) that does not answer."""

    kind: ClassVar[EventKind] = "gsp-timeout"


class SwitchComplaint(KernelEvent, kw_only=True):
    """An error of the NVSwitch driver without a number."""

    kind: ClassVar[EventKind] = "nvswitch"


class PeermemComplaint(KernelEvent, kw_only=True):
    """An error of nvidia-peermem; `variant` is `context`, `load` or `other`."""

    kind: ClassVar[EventKind] = "peermem"


class DriverLoaded(KernelEvent, kw_only=True):
    """The GPU driver that was loaded."""

    kind: ClassVar[EventKind] = "driver-loaded"
    version: str


class PcieLimited(KernelEvent, kw_only=True):
    """A card whose PCIe link is slower than the card supports."""

    kind: ClassVar[EventKind] = "pcie-limited"
    available_gbit_per_s: float
    link: str | None = None
    """The link that limits the card: `16.0 GT/s PCIe x16`; None if the line was cut."""
    limited_by: str | None = None
    """PCI address of the link that limits the card."""
    capable_gbit_per_s: float | None = None


class PcieLink(KernelEvent, kw_only=True):
    """A card whose PCIe link is as fast as the card supports."""

    kind: ClassVar[EventKind] = "pcie-link"
    gbit_per_s: float
    link: str


class PcieError(KernelEvent, kw_only=True):
    """An error of a PCIe link; `variant` is `corrected`, `uncorrected`, `fatal` or `contained`."""

    kind: ClassVar[EventKind] = "pcie-error"
    is_unplugged: bool = False
    """True if a slot for hot plugging lost its link or has no card, as at each boot of an empty slot."""


class SlotPower(KernelEvent, kw_only=True):
    """A card whose slot provides too little power."""

    kind: ClassVar[EventKind] = "slot-power"


class IommuFault(KernelEvent, kw_only=True):
    """A transfer that the IOMMU refused."""

    kind: ClassVar[EventKind] = "iommu-fault"
    address: str | None = None
    """The device's address as the line prints it."""
    driver: str | None = None
    """The driver of the device, which newer kernels print."""


class LinkDown(KernelEvent, kw_only=True):
    """A network link that went down."""

    kind: ClassVar[EventKind] = "link-down"


class LinkUp(KernelEvent, kw_only=True):
    """A network link that came up."""

    kind: ClassVar[EventKind] = "link-up"


class CableFault(KernelEvent, kw_only=True):
    """A cable or module that is missing, faulty or too hot; `variant` names the problem."""

    kind: ClassVar[EventKind] = "cable"


class NicFault(KernelEvent, kw_only=True):
    """A network card that its driver stopped using (`fatal`), or a queue or command that hung."""

    kind: ClassVar[EventKind] = "nic-fault"


class NicFirmware(KernelEvent, kw_only=True):
    """The firmware of an mlx card."""

    kind: ClassVar[EventKind] = "nic-firmware"
    address: str
    """The card's address as the line prints it."""
    version: str


class FullTable(KernelEvent, kw_only=True):
    """A full table of the kernel; `variant` names it."""

    kind: ClassVar[EventKind] = "kernel-limit"


class OutOfMemory(KernelEvent, kw_only=True):
    """A process that the kernel killed to free memory, or whose request for memory led to a kill."""

    kind: ClassVar[EventKind] = "out-of-memory"
    process: str | None = None
    victim: int | None = None
    """Process id of the killed process."""
    scope: str | None = None
    """`cgroup` or `host`."""


class Lockup(KernelEvent, kw_only=True):
    """A processor or task that made no progress; `variant` names the kind."""

    kind: ClassVar[EventKind] = "lockup"


class MachineCheck(KernelEvent, kw_only=True):
    """A hardware error of the processor or memory; `variant` is its severity or its kind."""

    kind: ClassVar[EventKind] = "machine-check"


class FilesystemError(KernelEvent, kw_only=True):
    """A file system that is damaged, or whose server does not answer.

    `fatal` is True if the file system became read-only or was shut down.
    """

    kind: ClassVar[EventKind] = "filesystem"


class FileServerBack(KernelEvent, kw_only=True):
    """A file server that answers again."""

    kind: ClassVar[EventKind] = "filesystem-back"


class StorageError(KernelEvent, kw_only=True):
    """A disk that fails or reports errors."""

    kind: ClassVar[EventKind] = "storage"


class Panic(KernelEvent, kw_only=True):
    """A crash of the kernel itself."""

    kind: ClassVar[EventKind] = "panic"


class ProgramCrash(KernelEvent, kw_only=True):
    """A crash of a training program, or in a library used for training."""

    kind: ClassVar[EventKind] = "crash"
    process: str
    library: str = ""


class NcclCrash(ProgramCrash, kw_only=True):
    """A crash inside NCCL or RCCL."""

    kind: ClassVar[EventKind] = "nccl-crash"


class KernelRow(NamedTuple):
    """One kind of line."""

    event: type[KernelEvent]
    words: tuple[str, ...]
    """Texts; every line of this kind contains at least one of them.

    A log is searched for these words, and only lines with one of them are read.
    """
    shape: re.Pattern[str]
    """Pattern that may match anywhere in the message; its named groups are fields of the event."""
    make: Maker | None
    """Function that builds the event if groups alone do not suffice; it returns None for other lines."""
    fields: dict[str, Any]
    """Fields that every event of the row has."""

    def read(self, message: str) -> KernelEvent | None:
        """Return the event of a message without time and host; None if the row does not match the line."""
        match = self.shape.search(message)
        if match is None:
            return None
        if self.make is None:
            named: dict[str, Any] = {**self.fields, **match.groupdict()}
            return self.event(message=message, **named)
        return self.make(match)


def row(
    event: type[KernelEvent],
    words: str | tuple[str, ...],
    shape: str,
    *,
    flags: int = 0,
    make: Maker | None = None,
    **fields: Any,
) -> KernelRow:
    """Return a row; with `make`, only that function determines the fields."""
    words = (words,) if isinstance(words, str) else words
    return KernelRow(event, words, pattern(shape, flags), make, fields)


def leading_device(message: str) -> str | None:
    """Return the PCI address at the beginning of a message, possibly after the driver's name."""
    match = _LEADING_PCI.match(message)
    return match[1] if match else None


def card_of(address: str) -> str:
    """Return an address (`17:00.0`, `0000:17:00.0`) with its domain and without its function."""
    card = address.partition(".")[0]
    return card if card.count(":") > 1 else f"0000:{card}"
