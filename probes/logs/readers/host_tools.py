"""Reader of host tools in logs: `lspci -vvv`, `ulimit -a`, `df /dev/shm`, and systemd's kills for memory.

Source: pciutils, ls-caps.c; bash `ulimit`; coreutils `df` (read 2026-11).
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.host_events import HostMemlock, HostOomKill, HostShm, PciAcs

SIGNS: tuple[bytes, ...] = (
    b"ACSCtl:",
    b"max locked memory",
    b"% /dev/shm",
    b"killed by the OOM killer",
    b"systemd-oomd",
)
_REDIRECT = pattern(r"ACSCtl:.{0,120}?(?:ReqRedir|CmpltRedir)\+")
_MEMLOCK = pattern(r"max locked memory\s{1,20}\((kbytes|bytes), -l\) (\d{1,18}|unlimited)")
_SHM = pattern(
    r"^(?:shm|tmpfs|none)\s{1,30}(\d{1,15}(?:\.\d)?)([KMGT]?)\s{1,20}\S{1,15}\s{1,20}\S{1,15}\s{1,20}"
    r"(\d{1,3})% /dev/shm\s{0,4}$"
)
_UNITS = {"": 1024, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""`df` counts KiB where it names no unit."""


_OOM = pattern(
    r"^systemd(?:\[\d{1,9}\])?: (?P<unit>\S{1,120}): A process of this unit has been killed by the OOM "
    r"killer|"
    r"^systemd-oomd(?:\[\d{1,9}\])?: Killed (?P<scope>\S{1,200}) due to memory "
)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    text = line.text
    if _REDIRECT.search(text):
        return (event_of(PciAcs(redirect=True), line),)
    if (match := _OOM.match(text)) is not None:
        # Shown as it stands: taking the envelope off joins the program's name to its words anew.
        return (event_of(HostOomKill(process=match["unit"] or match["scope"]), line._replace(text=line.raw)),)
    if (match := _MEMLOCK.search(text)) is not None:
        if match[2] == "unlimited":
            return (event_of(HostMemlock(unlimited=True), line),)
        kib = int(match[2]) if match[1] == "kbytes" else int(match[2]) >> 10
        return (event_of(HostMemlock(unlimited=False, kib=kib), line),)
    if (match := _SHM.match(text)) is not None:
        size = int(float(match[1]) * _UNITS[match[2]])
        return (event_of(HostShm(bytes=size, used_percent=int(match[3])), line),)
    return ()
