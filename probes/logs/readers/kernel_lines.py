"""The kernel log, alone or mixed with other lines: GPUs, NVSwitches, PCIe, network cards, memory, crashes.

`probes/parsers/kernel/kernel_grammar.py` lists the lines that report something, for this reader and for
`check`. The records are in `probes/logs/events/kernel_log_events.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from probes.base.patterns import pattern
from probes.catalogue.xids import load_xids
from probes.logs.event import Event, event_of
from probes.logs.events import kernel_log_events as events
from probes.logs.events.log_record import LogRecord
from probes.logs.line import LogLine
from probes.parsers.kernel import kernel_events as said
from probes.parsers.kernel.kernel_grammar import ROWS_BY_WORD, NamedGpu, read_message
from probes.parsers.kernel.kernel_network import CARRIER_WORD, DAEMONS, read_carrier
from probes.parsers.kernel.log_lines import KERNEL, is_log_line, is_syslog_line, take_apart

SIGNS: tuple[bytes, ...] = tuple(word.encode() for word in (*ROWS_BY_WORD, CARRIER_WORD))

_ONLY_KERNEL = pattern(
    r"(?:NVRM: |NVRM version: |Xid |nvidia-nvswitch|nvidia-peermem|pci 0000:|pcieport |mlx[45]_core \d|"
    r"bnxt_en \d|oom-kill:|"
    r"DMAR: |AMD-Vi: |EDAC MC|(?:Memory cgroup o|O)ut of memory: Kill|"
    r"nfs: server \S{1,80} (?:not|OK)|\S{1,40} invoked oom-killer|.{1,60}\[\d{1,10}\]: segfault at |"
    r"EXT4-fs|INFO: task )"
)
"""Beginnings of messages that nothing but a kernel writes, for lines that have lost their time stamp."""
_EXCERPT = 240
_GONE = frozenset({"fallen off the bus", "gone at load"})


class Reader:
    """The kernel's lines of one source. The driver names a GPU in one line and goes on about it in the next
    ones.
    """

    def __init__(self) -> None:
        self._named = NamedGpu()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the event of one line, where it is a kernel's, or the network daemon's about a link."""
        event, message = _carrier(line), None
        if event is None and (message := kernel_message(line)) is not None:
            event = self._named.complete(read_message(message), message, line.number)
        return () if event is None else (event_of(record_of(event, message or event.message), line),)

    def end(self) -> tuple[Event, ...]:
        """Return nothing, as nothing is held back."""
        return ()


def _carrier(line: LogLine) -> said.KernelEvent | None:
    """Return the link that the network daemon reports."""
    if CARRIER_WORD not in line.raw:
        return None
    apart = take_apart(line.raw)
    return read_carrier(apart.message) if apart.origin in DAEMONS else None


def kernel_message(line: LogLine) -> str | None:
    """Return the message without its prefix; None for a line that may as well come from a program."""
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


def record_of(event: said.KernelEvent, message: str) -> LogRecord:
    """Return what the causes and facts of logs look at, of an event and the message that it was read from."""
    excerpt = message[:_EXCERPT]
    record = _FAMILIES.get(type(event), _of_host)(event, excerpt)
    return events.KernelPanic(event=excerpt) if record is None else record


def _of_gpu(event: said.KernelEvent, excerpt: str) -> LogRecord | None:
    match event:
        case said.XidError():
            return _xid(event, excerpt)
        case said.SwitchError():
            return _switch_error(event)
        case said.FirmwareTimeout():
            return events.KernelGsp(message=event.message[:_EXCERPT], bus=event.device)
        case said.DriverComplaint(variant=what, device=bus) if what in _GONE:
            return events.KernelGpuLost(what=what, bus=bus)
        case said.DriverComplaint(variant=what, device=bus, client=client, module=module):
            return events.KernelNvrm(what=what, event=excerpt, bus=bus, client=client, module=module)
        case said.PeermemComplaint():
            return events.KernelPeermem(what=event.variant)
        case said.SwitchComplaint():
            return events.KernelNvswitch(device=event.device or "", event=excerpt)
        case said.DriverLoaded():
            return events.KernelDriver(version=event.version)
        case _:
            return None


def _of_card(event: said.KernelEvent, _: str) -> LogRecord | None:
    match event:
        case said.PcieLink():
            return events.KernelPcieLink(bus=event.device or "", gbit_per_s=event.gbit_per_s, link=event.link)
        case said.PcieLimited(link=None):
            return events.KernelPcieLimited(bus=event.device)
        case said.PcieLimited():
            return events.KernelPcieLimited(
                bus=event.device,
                available_gbit_per_s=event.available_gbit_per_s,
                capable_gbit_per_s=event.capable_gbit_per_s,
                limited_by=event.limited_by,
                link=event.link,
            )
        case said.PcieError():
            severity = "unplugged" if event.is_unplugged else event.variant
            return events.KernelAer(severity=severity, bus=event.device)
        case said.SlotPower():
            return events.KernelSlotPower(bus=event.device)
        case said.IommuFault():
            return events.KernelIommuFault(bus=event.address)
        case said.NicFirmware():
            return events.KernelNicFirmware(bus=event.address, version=event.version)
        case _:
            return None


def _of_network(event: said.KernelEvent, excerpt: str) -> LogRecord | None:
    match event:
        case said.LinkDown():
            return events.KernelLink(device=event.device or "", state="down")
        case said.LinkUp():
            return events.KernelLink(device=event.device or "", state="up")
        case said.CableFault():
            return events.KernelCable(what=event.variant, bus=event.device)
        case said.NicFault():
            kind = events.KernelMlx if "mlx5" in excerpt or "mlx4" in excerpt else events.KernelNic
            return kind(what=event.variant, event=excerpt, fatal=int(bool(event.fatal)), bus=event.device)
        case said.FullTable():
            return events.KernelLimit(what=event.variant)
        case _:
            return None


def _of_host(event: said.KernelEvent, excerpt: str) -> LogRecord | None:
    device, fatal = event.device or "", None if event.fatal is None else int(event.fatal)
    match event:
        case said.OutOfMemory():
            return events.KernelOomKill(process=event.process, victim=event.victim, scope=event.scope)
        case said.Lockup():
            return events.KernelLockup(what=event.variant)
        case said.MachineCheck():
            return events.KernelMachineCheck(event=excerpt, what=event.variant or None, fatal=fatal)
        case said.FilesystemError():
            return events.KernelFilesystem(event=excerpt, device=device, fatal=fatal)
        case said.FileServerBack():
            return events.KernelFilesystemBack(device=device)
        case said.StorageError():
            return events.KernelStorage(event=excerpt, device=device)
        case said.ProgramCrash():
            return events.KernelSegfault(process=event.process, library=event.library or None)
        case _:
            return None


_GPU = (
    *(said.XidError, said.SwitchError, said.FirmwareTimeout, said.DriverComplaint),
    *(said.PeermemComplaint, said.SwitchComplaint, said.DriverLoaded),
)
_CARD = (said.PcieLink, said.PcieLimited, said.PcieError, said.SlotPower, said.IommuFault, said.NicFirmware)
_NETWORK = (said.LinkDown, said.LinkUp, said.CableFault, said.NicFault, said.FullTable)
_FAMILIES: dict[type[said.KernelEvent], Callable[[said.KernelEvent, str], LogRecord | None]] = {
    **dict.fromkeys(_GPU, _of_gpu),
    **dict.fromkeys(_CARD, _of_card),
    **dict.fromkeys(_NETWORK, _of_network),
}


def _xid(event: said.XidError, excerpt: str) -> events.KernelXid:
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


def _switch_error(event: said.SwitchError) -> events.KernelSxid:
    fatal = load_xids().switch_fatal(event.sxid) if event.fatal is None else event.fatal
    return events.KernelSxid(
        sxid=event.sxid,
        bus=event.device,
        fatal=None if fatal is None else int(fatal),
        part=load_xids().switch_part(event.sxid),
        link=event.link,
    )
