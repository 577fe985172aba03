"""Who keeps the time of day, and whether the kernel counts it as kept."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import EvidenceRef, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Clock
from probes.reading.processes import DEEP_ONLY, processes
from probes.sources.base import Source, read_int, read_text

_SLICES = (
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/systemd/system.slice",
    "/sys/fs/cgroup/unified/system.slice",
)
"""A control group of a service is there as long as it has a process (systemd; versions 2, 1 and both)."""
_UNITS = (
    ("chronyd.service", "chronyd"),
    ("chrony.service", "chronyd"),
    ("ntpd.service", "ntpd"),
    ("ntp.service", "ntpd"),
    ("ntpsec.service", "ntpd"),
    ("openntpd.service", "ntpd"),
    ("systemd-timesyncd.service", "systemd-timesyncd"),
    ("phc2sys.service", "phc2sys"),
)
_PID_FILES = ("/run/chrony/chronyd.pid", "/run/chronyd.pid", "/run/ntpd.pid", "/run/openntpd.pid")
_DAEMONS = ("chronyd", "ntpd", "systemd-timesyn", "phc2sys", "ptp4l")
"""As the kernel names the processes: 15 characters."""
_KEPT = "/run/systemd/timesync/synchronized"
_TIMEDATECTL = ("timedatectl", "show", "-p", "NTPSynchronized")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`clock`."""
    daemon, daemon_refs = _daemon(source, options)
    kept, kept_refs = _synchronized(source, options)
    return {"clock": Clock(daemon=daemon, synchronized=kept, evidence=(*daemon_refs, *kept_refs))}


def _daemon(source: Source, options: CollectOptions) -> tuple[str | Unknown | None, tuple[EvidenceRef, ...]]:
    looked: list[str] = []
    for folder in _SLICES:
        names = source.names(folder)
        if isinstance(names, Unknown):
            continue
        looked.append(folder)
        for unit, daemon in _UNITS:
            if unit in names:
                return daemon, (file_ref(f"{folder}/{unit}"),)
    for path in _PID_FILES:
        pid = read_int(source, path)
        if not isinstance(pid, Unknown):
            name = read_text(source, f"/proc/{pid}/comm")
            if name in _DAEMONS:
                return str(name), (file_ref(path),)
    found = processes(source) if options.deep else DEEP_ONLY
    if isinstance(found, Unknown):
        return (None, tuple(map(file_ref, looked))) if looked else (found, ())
    names_found = {process.name for process in found}
    return next((name for name in _DAEMONS if name in names_found), None), (file_ref("/proc"),)


def _synchronized(source: Source, options: CollectOptions) -> tuple[bool | Unknown, tuple[EvidenceRef, ...]]:
    """systemd-timesyncd leaves a mark; the kernel's own word is only to be had by a command."""
    if not isinstance(source.link(_KEPT), Unknown):
        return True, (file_ref(_KEPT),)
    if not options.deep:
        return DEEP_ONLY, ()
    text = source.run(_TIMEDATECTL, timeout_s=5).text()
    if isinstance(text, Unknown):
        return text, ()
    value = text.strip().partition("=")[2]
    if value not in ("yes", "no"):
        return Unknown(Reason.UNPARSABLE, f"timedatectl: {text[:60]!r}"), ()
    return value == "yes", (command_ref(_TIMEDATECTL),)
