"""The kernel log in every form in which it is handed on: `dmesg` (raw, -T, --decode, ISO times, JSON),
records of /dev/kmsg, `journalctl` (short, ISO, JSON), syslog, dumps of pstore, and bare lines that somebody
copied.

The text is searched for the few words that lines of interest contain, and only those lines are taken apart: a
log of hundreds of megabytes costs seconds, and no memory beyond its events. A line counts once; what repeats
is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from probes.base.record import Record
from probes.facts import LogEvent
from probes.facts.observed import EventKind
from probes.parsers.kernel.kernel_gpu import (
    is_broken_xid,
    named_gpu,
    read_driver,
    read_module,
    read_peermem,
    read_switch,
    read_sxid,
    read_xid,
)
from probes.parsers.kernel.kernel_host import (
    read_cable,
    read_carrier,
    read_crash,
    read_filesystem,
    read_link,
    read_lockup,
    read_machine_check,
    read_memory,
    read_pcie,
    read_storage,
)
from probes.parsers.kernel.kernel_network import read_limit, read_nic_driver
from probes.parsers.kernel.log_lines import KERNEL, is_log_line, is_syslog_line, take_apart
from probes.parsers.kernel.log_tally import Sighting, Tally

_Reader = Callable[[str], Sighting | None]

_WORDS: tuple[tuple[_Reader, tuple[str, ...]], ...] = (
    (read_xid, ("Xid ",)),
    (read_sxid, ("SXid (",)),
    (read_driver, ("NVRM:",)),
    (read_module, ("nvidia: ", "nvidia_", "probe with driver nvidia")),
    (read_peermem, ("peermem",)),
    (read_switch, ("nvidia-nvswitch",)),
    (read_pcie, ("limited by", "AER: ", "PCIe Bus Error", "DPC: ", "pciehp: ", "on the PCIe slot")),
    (
        read_link,
        (
            "Link down",
            "Link up",
            "Link is ",
            "ink ACTIVE",
            "ink DOWN",
            "ink UP",
            "link status",
            "active interface",
        ),
    ),
    (read_cable, ("Port module event", "igh temperature", "igh Temperature")),
    (
        read_nic_driver,
        (
            "mlx5_core",
            "mlx4_core",
            "efa ",
            "probe of",
            "probe with",
            "TX timeout",
            "NETDEV WATCHDOG",
            "in error state",
        ),
    ),
    (read_limit, ("file-max limit", "table full", "table overflow", "fork rejected")),
    (read_memory, ("ut of memory", "oom-kill:", "Killed process", "invoked oom-killer")),
    (
        read_lockup,
        ("soft lockup", "LOCKUP", "blocked for more than", "blocked in I/O", "stall", "starved for"),
    ),
    (
        read_machine_check,
        ("EDAC MC", "Hardware Error]", "achine check", "memory error", "Memory failure:", "MCE MEMORY"),
    ),
    (read_filesystem, ("EXT4-fs", "XFS (", "BTRFS", "ead-only", "forced readonly", "not responding")),
    (
        read_storage,
        (
            "nvme nvme",
            "I/O error",
            "critical medium",
            "critical target",
            "beyond end of device",
            "md/raid",
            "md: ",
        ),
    ),
    (
        read_crash,
        ("segfault", "traps: ", "Kernel panic", "BUG: ", "kernel BUG", "Oops: ", "general protection"),
    ),
)
_DAEMON_WORDS = (" carrier",)
_BOOT = ("Linux version ", "-- Boot ", "-- Reboot --")
_DRIVER_LOAD = "NVRM: loading NVIDIA"
_OF_DRIVER: frozenset[EventKind] = frozenset({"xid", "sxid", "nvrm", "gsp-timeout", "nvswitch"})
_OF_LOAD = frozenset({"probe failed", "unsupported GPU", "gone at load"})
"""Complaints of a load of the driver, which says that it loads only after it has tried all GPUs."""
_LINES_ON = 4
_DAEMONS = frozenset({"systemd-networkd", "NetworkManager"})
_WINDOW = 1 << 20
_LONGEST_LINE = 8192
_MOST_UNREAD = 20
_SAMPLE = 1 << 18
"""How much of a text is looked at line by line to tell whether it is a log."""
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


class UnreadLine(Record, kw_only=True):
    """A line that begins as one of interest does, and goes on otherwise."""

    number: int
    text: str


class KernelLog(Record, kw_only=True):
    """What one log says."""

    events: tuple[LogEvent, ...]
    unread: tuple[UnreadLine, ...] = ()


def recognise(text: str) -> bool:
    """Several lines with the marks of a log, some of them of a kernel, or one that only a kernel writes."""
    lines = [line for line in text[:_SAMPLE].split("\n") if line.strip()][:200]
    marked = sum(is_log_line(line) for line in lines)
    if marked and (
        marked * 2 >= len(lines)
        or sum(is_log_line(line) or is_syslog_line(line) for line in lines) * 2 >= len(lines)
    ):
        return True
    return any(_is_kernel_line(line) for line in _lines_with(text, _BARE_WORDS))


def _lines_with(text: str, words: tuple[str, ...]) -> Iterator[str]:
    """The first lines that contain one of `words`."""
    for word in words:
        position, seen = text.find(word), 0
        while position >= 0 and seen < 8:
            end = text.find("\n", position)
            start = text.rfind("\n", 0, position) + 1
            yield text[start : end if end >= 0 else len(text)][:_LONGEST_LINE]
            position, seen = text.find(word, end) if end >= 0 else -1, seen + 1


def _is_kernel_line(line: str) -> bool:
    apart = take_apart(line)
    if apart.origin != KERNEL:
        return False
    if "NVRM: Xid (" in line and read_xid(line) is not None:
        return True
    whole = is_log_line(line) or bool(apart.time)
    begins = apart.message.startswith(
        ("NVRM: ", "nvidia-nvswitch", "nvidia-peermem", "Xid ", "pci 0000:", "mlx5_core 0")
    )
    readers = (read_xid, read_sxid, read_driver, read_switch, read_peermem, read_pcie, read_cable, read_link)
    return begins and (whole or any(reader(apart.message) for reader in readers))


def parse_kernel_log(text: str) -> KernelLog:
    """Every event of the log, counted, in the order of their first lines."""
    tally = Tally()
    unread: list[UnreadLine] = []
    named = _Named()
    number, counted = 1, 0
    for start, readers in _candidates(text):
        number += text.count("\n", counted, start)
        counted = start
        end = text.find("\n", start, start + _LONGEST_LINE)
        line = text[start : end if end >= 0 else start + _LONGEST_LINE]
        time, origin, message = take_apart(line)
        if origin != KERNEL:
            sighting = read_carrier(message) if origin in _DAEMONS else None
        elif (sighting := named.complete(_first(readers, message), message, number)) is None:
            if message.startswith(_BOOT):
                tally.settle()
            elif _DRIVER_LOAD in message:
                tally.settle(kinds=_OF_DRIVER, but=_OF_LOAD)
            elif is_broken_xid(message) and len(unread) < _MOST_UNREAD:
                unread.append(UnreadLine(number=number, text=message[:200]))
        if sighting is not None:
            tally.add(sighting, number, time)
            if sighting.code == 154 and sighting.variant.endswith("(None)"):
                tally.settle(kinds=_OF_DRIVER, device=sighting.device)
    return KernelLog(events=tally.events(), unread=tuple(unread))


class _Named:
    """The GPU that the driver names in one line to go on about it in the next ones."""

    def __init__(self) -> None:
        self._device, self._line = "", 0

    def complete(self, sighting: Sighting | None, message: str, line: int) -> Sighting | None:
        if (device := named_gpu(message)) is not None:
            self._device, self._line = device, line
        elif (
            sighting is not None and self._device and line - self._line < _LINES_ON and _is_unplaced(sighting)
        ):
            return sighting._replace(device=self._device)
        return sighting


def _is_unplaced(sighting: Sighting) -> bool:
    return sighting.kind == "nvrm" and sighting.device is None


def _first(readers: tuple[_Reader, ...], message: str) -> Sighting | None:
    for reader in readers:
        sighting = reader(message)
        if sighting is not None:
            return sighting
    return None


def _candidates(text: str) -> Iterator[tuple[int, tuple[_Reader, ...]]]:
    """Where the lines begin that contain a word of interest, in order, with the readers of these words."""
    words = [(word, 1 << place) for place, (_, some) in enumerate(_WORDS) for word in some]
    words += [(word, 0) for word in (*_DAEMON_WORDS, *_BOOT, _DRIVER_LOAD)]
    following = {word: text.find(word) for word, _ in words}
    readers: dict[int, tuple[_Reader, ...]] = {}
    low = 0
    while low < len(text):
        end_of_line = text.find("\n", low + _WINDOW)
        high = end_of_line if end_of_line >= 0 else len(text)
        found: dict[int, int] = {}
        for word, bit in words:
            position = following[word]
            while 0 <= position < high:
                start = text.rfind("\n", 0, position) + 1
                found[start] = found.get(start, 0) | bit
                end = text.find("\n", position)
                position = text.find(word, end) if end >= 0 else -1
            following[word] = position
        for start, bits in sorted(found.items()):
            if bits not in readers:
                readers[bits] = tuple(reader for place, (reader, _) in enumerate(_WORDS) if bits >> place & 1)
            yield start, readers[bits]
        low = high


def sighting_of(message: str) -> Sighting | None:
    """What one message of the kernel, freed of time and host, says."""
    for reader, words in _WORDS:
        if any(word in message for word in words) and (sighting := reader(message)) is not None:
            return sighting
    return None
