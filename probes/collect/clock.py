"""Collect which daemon keeps the time of day, and whether the kernel reports the clock as synchronised."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import DEEP_ONLY, EvidenceRef, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Clock
from probes.reading.processes import processes
from probes.sources.base import Source, read_int, read_text

_SLICES = (
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/systemd/system.slice",
    "/sys/fs/cgroup/unified/system.slice",
)
"""Folders of services: the control group of a service exists while it has a process.

The folders are those of systemd with versions 2, 1 and both.
"""
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
"""Process names of the kernel, cut off after 15 characters."""
_KEPT = "/run/systemd/timesync/synchronized"
_TIMEDATECTL = ("timedatectl", "show", "-p", "NTPSynchronized")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `clock`."""
    daemon, daemon_refs = _daemon(source, options)
    kept, kept_refs = _synchronized(source, options)
    return {"clock": Clock(daemon=daemon, synchronized=kept, evidence=(*daemon_refs, *kept_refs))}


def _daemon(source: Source, options: CollectOptions) -> tuple[str | Unknown | None, tuple[EvidenceRef, ...]]:
    folders_read: list[str] = []
    for folder in _SLICES:
        names = source.names(folder)
        if isinstance(names, Unknown):
            continue
        folders_read.append(folder)
        for unit, daemon in _UNITS:
            if unit in names:
                return daemon, (file_ref(f"{folder}/{unit}"),)
    for path in _PID_FILES:
        pid = read_int(source, path)
        if not isinstance(pid, Unknown):
            name = read_text(source, f"/proc/{pid}/comm")
            if name in _DAEMONS:
                return str(name), (file_ref(path),)
    running = processes(source) if options.deep else DEEP_ONLY
    if isinstance(running, Unknown):
        return (None, tuple(map(file_ref, folders_read))) if folders_read else (running, ())
    running_names = {process.name for process in running}
    return next((name for name in _DAEMONS if name in running_names), None), (file_ref("/proc"),)


def _synchronized(source: Source, options: CollectOptions) -> tuple[bool | Unknown, tuple[EvidenceRef, ...]]:
    """Return whether the clock is synchronised.

    systemd-timesyncd leaves a file; otherwise only a command reports the kernel's state.
    """
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
