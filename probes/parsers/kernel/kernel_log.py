"""Parse the kernel log in all forms in which it is stored.

The forms are `dmesg` (raw, -T, --decode, ISO times, JSON), records of /dev/kmsg, `journalctl` (short, ISO,
JSON), syslog, dumps of pstore, and bare lines that somebody copied.

The text is searched for the few words that lines of interest contain, and only those lines are parsed, so
that a log of hundreds of megabytes takes seconds and needs memory only for its text and its events. Repeated
lines are counted as one event.
"""

from collections.abc import Iterator

from probes.base.record import Record
from probes.facts import LogEvent
from probes.facts.observed import EventKind
from probes.parsers.kernel.kernel_events import (
    CableFault,
    DriverComplaint,
    DriverLoaded,
    FileServerBack,
    FirmwareTimeout,
    KernelEvent,
    LinkDown,
    LinkUp,
    PcieError,
    PcieLimited,
    PeermemComplaint,
    SlotPower,
    SwitchComplaint,
    SwitchError,
    XidError,
)
from probes.parsers.kernel.kernel_gpu import is_broken_xid
from probes.parsers.kernel.kernel_grammar import ROWS_BY_WORD, NamedGpu, read_by, read_message, rows_of
from probes.parsers.kernel.kernel_network import CARRIER_WORD, DAEMONS, read_carrier
from probes.parsers.kernel.log_lines import (
    KERNEL,
    LONGEST_LINE,
    is_log_line,
    is_syslog_line,
    lines_with,
    take_apart,
)
from probes.parsers.kernel.log_tally import Sighting, Tally
from probes.parsers.kernel.xid_chains import XidChains, is_recovered, seconds_of

_BOOT = ("Linux version ", "-- Boot ", "-- Reboot --")
_DRIVER_LOAD = "NVRM: loading NVIDIA"
_WORDS = {**dict.fromkeys((CARRIER_WORD, *_BOOT, _DRIVER_LOAD), 0), **ROWS_BY_WORD}
"""Every line of interest contains one of these words; the bits are the rows that require the word."""
_FILE_SERVERS: frozenset[EventKind] = frozenset({"filesystem"})
_DRIVER_KINDS: frozenset[EventKind] = frozenset({"xid", "sxid", "nvrm", "gsp-timeout", "nvswitch"})
_LOAD_VARIANTS = frozenset({"probe failed", "unsupported GPU", "gone at load"})
"""Variants of failures during a load of the driver.

The driver writes the line about the load after them, so this line does not end them.
"""
_MOST_UNREAD = 20
_SAMPLE = 1 << 18
"""Number of characters whose lines are tested for the prefix of a log."""
_BARE_WORDS = (
    "NVRM: Xid",
    "SXid (",
    " Xid ",
    "NVRM: ",
    "nvidia-nvswitch",
    "nvidia-peermem",
    "available PCIe bandwidth",
    "mlx5_core ",
)

_BEGINNINGS = ("NVRM: ", "nvidia-nvswitch", "nvidia-peermem", "Xid ", "pci 0000:", "mlx5_core 0")
_DEVICE_EVENTS = (
    XidError,
    SwitchError,
    DriverComplaint,
    FirmwareTimeout,
    SwitchComplaint,
    PeermemComplaint,
    PcieLimited,
    PcieError,
    SlotPower,
    CableFault,
    LinkDown,
    LinkUp,
)
"""Events that identify a bare line, which somebody copied, as a line of the kernel."""


class UnreadLine(Record, kw_only=True):
    """A line that begins like a line of interest but continues differently."""

    number: int
    text: str


class KernelLog(Record, kw_only=True):
    """Content of one log."""

    events: tuple[LogEvent, ...]
    unread: tuple[UnreadLine, ...] = ()


def recognise(text: str) -> bool:
    """Return whether half of the first lines look like a log, or one line can come only from a kernel."""
    lines = [line for line in text[:_SAMPLE].split("\n") if line.strip()][:200]
    marked = sum(is_log_line(line) for line in lines)
    # Half of the lines must have a prefix, because logs of programs may quote a few lines of the kernel.
    if marked and (
        marked * 2 >= len(lines)
        or sum(is_log_line(line) or is_syslog_line(line) for line in lines) * 2 >= len(lines)
    ):
        return True
    return any(_is_kernel_line(line) for line in _lines_with(text, _BARE_WORDS))


def _lines_with(text: str, words: tuple[str, ...]) -> Iterator[str]:
    """Yield, for each of `words`, the first eight lines that contain it."""
    for word in words:
        position, line_count = text.find(word), 0
        while position >= 0 and line_count < 8:
            end = text.find("\n", position)
            start = text.rfind("\n", 0, position) + 1
            yield text[start : end if end != -1 else len(text)][:LONGEST_LINE]
            position, line_count = text.find(word, end) if end != -1 else -1, line_count + 1


def _is_kernel_line(line: str) -> bool:
    time, origin, message = take_apart(line)
    event = read_message(message) if origin == KERNEL else None
    if "NVRM: Xid (" in line and isinstance(event, XidError):
        return True
    is_proven = isinstance(event, _DEVICE_EVENTS) or bool(time) or is_log_line(line)
    return origin == KERNEL and message.startswith(_BEGINNINGS) and is_proven


def parse_kernel_log(text: str) -> KernelLog:
    """Return every event of the log with its count, in the order of their first lines."""
    tally = Tally()
    unread: list[UnreadLine] = []
    named, chains = NamedGpu(), XidChains()
    for number, line, bits in lines_with(text, _WORDS):
        time, origin, message = take_apart(line)
        event = read_carrier(message) if origin in DAEMONS else None
        if origin == KERNEL:
            event = named.complete(read_by(rows_of(bits), message), message, number)
        if event is not None:
            after = None
            if isinstance(event, XidError):
                after = chains.root_of(event, event.device, seconds_of(time), number)
            tally.add(_sighting(event, after), number, time)
        if origin == KERNEL:
            _settle(tally, chains, event, message)
            if event is None and is_broken_xid(message) and len(unread) < _MOST_UNREAD:
                unread.append(UnreadLine(number=number, text=message[:200]))
    return KernelLog(events=tally.events(), unread=tuple(unread))


def _settle(tally: Tally, chains: XidChains, event: KernelEvent | None, message: str) -> None:
    """Note the earlier events that a line ends.

    A boot ends all events. A load of the driver ends the driver's events, except those of the load itself. A
    recovery ends the driver's events of the device. A file server that answers again ends its own events.
    """
    match event:
        case XidError() if is_recovered(event):
            tally.settle(kinds=_DRIVER_KINDS, device=event.device)
        case FileServerBack():
            tally.settle(kinds=_FILE_SERVERS, device=event.device)
        case DriverLoaded() | None if _DRIVER_LOAD in message:
            tally.settle(kinds=_DRIVER_KINDS, but=_LOAD_VARIANTS)
            chains.end()
        case None if message.startswith(_BOOT):
            tally.settle()
            chains.end()


def _sighting(event: KernelEvent, after: int | None) -> Sighting:
    xid = event if isinstance(event, XidError) else None
    number = xid.xid if xid else None
    return Sighting(
        kind=event.kind,
        message=event.message,
        device=event.device,
        code=event.sxid if isinstance(event, SwitchError) else number,
        sub_code=xid.sub_code if xid else None,
        after=after,
        fatal=event.fatal,
        variant=event.variant,
        view=event.view,
        adds=event.adds,
    )
