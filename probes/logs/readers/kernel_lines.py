"""Reader of kernel log lines, also among other lines: GPUs, NVSwitches, PCIe, network, memory, crashes.

`probes/parsers/kernel/kernel_grammar.py` lists the lines that report events, for this reader and for `check`.
The records are in `probes/logs/events/kernel_log_events.py`.
"""

from collections.abc import Callable

from probes.base.patterns import pattern
from probes.catalogue.xids import load_xids
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events import kernel_log_events as events
from probes.logs.events.log_record import LogRecord
from probes.parsers.kernel import kernel_events as parsed
from probes.parsers.kernel.kernel_grammar import ROWS_BY_WORD, NamedGpu, read_message
from probes.parsers.kernel.kernel_network import CARRIER_WORD, DAEMONS, read_carrier
from probes.parsers.kernel.log_lines import KERNEL, is_log_line, is_syslog_line, take_apart

_FAILED = "ailed to "
_SUSPICIOUS = ("rror", "ailed", "ailure", "ault", "imed out", "imeout", "uncorrect", "nrecover")
SIGNS: tuple[bytes, ...] = tuple(word.encode() for word in (*ROWS_BY_WORD, CARRIER_WORD, *_SUSPICIOUS))

_ONLY_KERNEL = pattern(
    r"(?:NVRM: |NVRM version: |Xid |nvidia-nvswitch|nvidia-peermem|pci 0000:|pcieport |mlx[45]_core \d|"
    r"amdgpu [\d:]|kfd kfd: |\[drm[:\]]|nouveau |(?:efa|ena) \d|LustreError: |Lustre: |"
    r"bnxt_en \d|oom-kill:|"
    r"DMAR: |AMD-Vi: |EDAC MC|(?:Memory cgroup o|O)ut of memory: Kill|"
    r"nfs: server \S{1,80} (?:not|OK)|\S{1,40} invoked oom-killer|.{1,60}\[\d{1,10}\]: segfault at |"
    r"EXT4-fs|INFO: task )"
)
"""Starts of messages that only a kernel writes, for lines that have lost their time stamp."""
_DRIVER_FAILED = pattern(
    r"^(?!(?:pci|pcieport|acpi\w{0,20}|tpm\w{0,9}) )([\w-]{2,30}) ([0-9a-f]{4}:[0-9a-f:]{5}\.[0-7])\b"
    r".{0,120}?\b[Ff]ailed to \w"
)
"""A failure that the driver of a PCI device reports in its own words."""
_EXCERPT = 240
_GONE = frozenset({"fallen off the bus", "gone at load"})


class Reader:
    """Reads the kernel's lines of one source.

    The driver names a GPU in one line and continues in the next lines without the name.
    """

    def __init__(self) -> None:
        self._named = NamedGpu()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the event of a line that comes from a kernel, or from the network daemon about a link."""
        event, message = _carrier(line), None
        if event is None and (message := kernel_message(line)) is not None:
            event = self._named.complete(read_message(message), message, line.number)
        if event is not None:
            return (event_of(record_of(event, message or event.message), line),)
        record = None if message is None else _other_record(message)
        return () if record is None else (event_of(record, line),)


def _other_record(message: str) -> LogRecord | None:
    """Return a record of a line that mentions trouble but that no row of the grammar describes.

    Return None for other lines.
    """
    if not any(word in message for word in _SUSPICIOUS):
        return None
    failed = _DRIVER_FAILED.match(message) if _FAILED in message else None
    if failed is None:
        return events.KernelUnread(message=message[:_EXCERPT])
    return events.KernelDriverFailed(driver=failed[1], bus=failed[2], message=message[:_EXCERPT])


def _carrier(line: LogLine) -> parsed.KernelEvent | None:
    """Return the event of a link that the network daemon reports."""
    if CARRIER_WORD not in line.raw:
        return None
    apart = take_apart(line.raw)
    return read_carrier(apart.message) if apart.origin in DAEMONS else None


def kernel_message(line: LogLine) -> str | None:
    """Return the message without its prefix; None if the line may also come from a program."""
    if line.is_kernel:
        return line.text.strip()
    for text in (line.raw, line.text):
        apart = take_apart(text)
        if apart.origin != KERNEL:
            continue
        if _ONLY_KERNEL.match(apart.message) or ": Xid (" in apart.message or "SXid (" in apart.message:
            return apart.message
        if is_log_line(text) or (is_syslog_line(text) and " kernel: " in text):
            return apart.message
    if " kernel: " in line.raw or line.raw.startswith("kernel: "):
        return line.raw.rpartition("kernel: ")[2].strip()
    return None


def record_of(event: parsed.KernelEvent, message: str) -> LogRecord:
    """Return the log record of a kernel event; `message` is the text that reports the event."""
    excerpt = message[:_EXCERPT]
    record = _FAMILIES.get(type(event), _host_record)(event, excerpt)
    return events.KernelPanic(event=excerpt) if record is None else record


def _gpu_record(event: parsed.KernelEvent, excerpt: str) -> LogRecord | None:
    match event:
        case parsed.XidError():
            return _xid(event, excerpt)
        case parsed.SwitchError():
            return _switch_error(event)
        case parsed.FirmwareTimeout():
            return events.KernelGsp(message=event.message[:_EXCERPT], bus=event.device)
        case parsed.DriverComplaint(variant=what, device=bus) if what in _GONE:
            return events.KernelGpuLost(what=what, bus=bus)
        case parsed.DriverComplaint(variant=what, device=bus, client=client, module=module):
            return events.KernelNvrm(what=what, event=excerpt, bus=bus, client=client, module=module)
        case parsed.AmdgpuFault():
            return events.KernelAmdgpu(
                what=event.variant,
                event=event.message[:_EXCERPT],
                bus=event.device,
                process=event.process,
                pid=event.pid,
                client=event.client,
            )
        case parsed.PeermemComplaint():
            return events.KernelPeermem(what=event.variant)
        case parsed.SwitchComplaint():
            return events.KernelNvswitch(device=event.device or "", event=excerpt)
        case parsed.DriverLoaded():
            return events.KernelDriver(version=event.version)
        case _:
            return None


def _card_record(event: parsed.KernelEvent, excerpt: str) -> LogRecord | None:
    match event:
        case parsed.PcieLink():
            return events.KernelPcieLink(bus=event.device or "", gbit_per_s=event.gbit_per_s, link=event.link)
        case parsed.PcieLimited(link=None):
            return events.KernelPcieLimited(bus=event.device)
        case parsed.PcieLimited():
            return events.KernelPcieLimited(
                bus=event.device,
                available_gbit_per_s=event.available_gbit_per_s,
                capable_gbit_per_s=event.capable_gbit_per_s,
                limited_by=event.limited_by,
                link=event.link,
            )
        case parsed.PcieError():
            severity = "unplugged" if event.is_unplugged else event.variant
            return events.KernelAer(severity=severity, bus=event.device)
        case parsed.SlotPower():
            return events.KernelSlotPower(bus=event.device)
        case parsed.IommuFault():
            return events.KernelIommuFault(bus=event.address, driver=event.driver)
        case parsed.DeviceError():
            return events.KernelDevice(what=event.variant, event=excerpt, bus=event.device)
        case parsed.NicFirmware():
            return events.KernelNicFirmware(bus=event.address, version=event.version)
        case _:
            return None


def _network_record(event: parsed.KernelEvent, excerpt: str) -> LogRecord | None:
    match event:
        case parsed.LinkDown():
            return events.KernelLink(device=event.device or "", state="down")
        case parsed.LinkUp():
            return events.KernelLink(device=event.device or "", state="up")
        case parsed.CableFault():
            return events.KernelCable(what=event.variant, bus=event.device)
        case parsed.NicFault():
            kind = events.KernelMlx if "mlx5" in excerpt or "mlx4" in excerpt else events.KernelNic
            return kind(what=event.variant, event=excerpt, fatal=int(bool(event.fatal)), bus=event.device)
        case parsed.FullTable():
            return events.KernelLimit(what=event.variant)
        case _:
            return None


def _host_record(event: parsed.KernelEvent, excerpt: str) -> LogRecord | None:
    device, fatal = event.device or "", None if event.fatal is None else int(event.fatal)
    match event:
        case parsed.OutOfMemory():
            return events.KernelOomKill(process=event.process, victim=event.victim, scope=event.scope)
        case parsed.UnstableClock():
            return events.KernelClock(event=excerpt)
        case parsed.Lockup():
            return events.KernelLockup(what=event.variant)
        case parsed.MachineCheck():
            return events.KernelMachineCheck(event=excerpt, what=event.variant or None, fatal=fatal)
        case parsed.FilesystemError():
            return events.KernelFilesystem(event=excerpt, device=device, fatal=fatal)
        case parsed.FileServerBack():
            return events.KernelFilesystemBack(device=device)
        case parsed.StorageError():
            return events.KernelStorage(event=excerpt, device=device)
        case parsed.ProgramCrash():
            return events.KernelSegfault(process=event.process, library=event.library or None)
        case _:
            return None


_GPU = (
    *(parsed.XidError, parsed.SwitchError, parsed.FirmwareTimeout, parsed.DriverComplaint),
    *(parsed.PeermemComplaint, parsed.SwitchComplaint, parsed.DriverLoaded, parsed.AmdgpuFault),
)
_CARD = (
    parsed.PcieLink,
    parsed.PcieLimited,
    parsed.PcieError,
    parsed.SlotPower,
    parsed.IommuFault,
    parsed.DeviceError,
    parsed.NicFirmware,
)
_NETWORK = (parsed.LinkDown, parsed.LinkUp, parsed.CableFault, parsed.NicFault, parsed.FullTable)
_FAMILIES: dict[type[parsed.KernelEvent], Callable[[parsed.KernelEvent, str], LogRecord | None]] = {
    **dict.fromkeys(_GPU, _gpu_record),
    **dict.fromkeys(_CARD, _card_record),
    **dict.fromkeys(_NETWORK, _network_record),
}


def _xid(event: parsed.XidError, excerpt: str) -> events.KernelXid:
    known = load_xids().find(event.xid)
    is_application = known is not None and known.kind == "application"
    return events.KernelXid(
        xid=event.xid,
        bus=event.device,
        xid_class=known.kind if known else "unknown",
        name=known.name if known else None,
        severity=known.severity if known else None,
        message=None if is_application else excerpt,
        sub_code=event.sub_code,
        unit=event.unit,
        link=event.link,
        fatal=None if event.fatal is None else int(event.fatal),
        process=event.process,
        pid=event.pid,
        caused_by=event.caused_by,
        action=event.action,
    )


def _switch_error(event: parsed.SwitchError) -> events.KernelSxid:
    fatal = load_xids().switch_fatal(event.sxid) if event.fatal is None else event.fatal
    return events.KernelSxid(
        sxid=event.sxid,
        bus=event.device,
        fatal=None if fatal is None else int(fatal),
        part=load_xids().switch_part(event.sxid),
        link=event.link,
    )
