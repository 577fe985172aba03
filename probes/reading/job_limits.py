"""Read the limits of a job, which usually differ from the limits of the shell or service that calls rigtune.

A job inherits the limits of the batch system's daemon; without a batch system, a login gets the limits of
limits.conf. Sources: slurm.conf(5), PropagateResourceLimits; OpenPBS administration guide; limits.conf(5) of
Linux-PAM (read 2026-11).
"""

from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.base.record import EvidenceRef, Record, Unknown, file_ref, items_of, value_or
from probes.parsers.host.limit_files import Number, parse_pam_limits, parse_unit
from probes.parsers.host.procfs import parse_limits
from probes.sources.base import Source, read_text

_NAMES = {"memlock": "Max locked memory", "nofile": "Max open files"}
"""Names of the limits in /proc/PID/limits."""
_UNIT_FOLDERS = (
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/system",
    "/etc/systemd/system",
)
"""Folders of unit files; a file in a later folder replaces a file of the same name in an earlier one."""
_PAM_FILE, _PAM_FOLDER = "/etc/security/limits.conf", "/etc/security/limits.d"
_IN_CONTAINER = ("/.dockerenv", "/run/.containerenv")
"""Files of Docker and Podman; no login takes place in a container."""
_PID_FILE = pattern(r"(?mi)^SlurmdPidFile=(/[^\s#]{1,200})")
"""The file that contains slurmd's process id; %h is the host and %n the node (slurm.conf(5))."""
_HOSTNAME = "/proc/sys/kernel/hostname"
_MOST_PIDS = 16
_OWN_JOB = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "KUBERNETES_SERVICE_HOST")
"""Variables that exist only in a job, whose processes already have the job's limits."""


class JobLimit(Record, kw_only=True):
    """A soft limit that a job gets."""

    value: Number
    owner: str
    """The process or file from which the limit comes: `of slurmd, process 812`."""
    evidence: tuple[EvidenceRef, ...] = ()


class _Daemon(Record, kw_only=True):
    """The program of a batch system that starts jobs on a node."""

    name: str
    unit: str
    pid_files: tuple[str, ...]
    settings: tuple[str, ...]
    """Files of which one exists if the batch system is configured, not merely installed."""


_DAEMONS = (
    _Daemon(
        name="slurmd",
        unit="slurmd",
        pid_files=("/run/slurmd.pid", "/run/slurm/slurmd.pid"),
        settings=("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf"),
    ),
    _Daemon(
        name="pbs_mom",
        unit="pbs",
        pid_files=("/var/spool/pbs/mom_priv/mom.lock",),
        settings=("/etc/pbs.conf",),
    ),
)


def job_limits(source: Source) -> dict[str, JobLimit]:
    """Return the limits `memlock` and `nofile` of a job with their owner.

    The result is empty if this process runs in a job, or if only the limits of this process are known.
    """
    if any(isinstance(source.env(name), str) for name in _OWN_JOB):
        return {}
    for daemon in _DAEMONS:
        limits = _of_process(source, daemon) or _of_unit(source, daemon)
        if limits:
            return limits
    return _of_login(source)


def _of_process(source: Source, daemon: _Daemon) -> dict[str, JobLimit]:
    for pid in _pids(source, daemon):
        if read_text(source, f"/proc/{pid}/comm") != daemon.name:
            continue
        path = f"/proc/{pid}/limits"
        text = read_text(source, path)
        if not isinstance(text, Unknown):
            soft = parse_limits(text)
            known = {name: soft[words] for name, words in _NAMES.items() if words in soft}
            return _owned(known, f"of {daemon.name}, process {pid}", path)
    return {}


def _pids(source: Source, daemon: _Daemon) -> Iterator[str]:
    """Yield the process ids in the daemon's pid files and control groups."""
    groups = tuple(
        f"/sys/fs/cgroup/{tree}system.slice/{daemon.unit}.service/cgroup.procs" for tree in ("", "systemd/")
    )
    settings = source.env("SLURM_CONF")
    host = value_or(read_text(source, _HOSTNAME), "").partition(".")[0]
    node = source.env("SLURMD_NODENAME")
    named = [
        match[1].replace("%h", host).replace("%n", node if isinstance(node, str) else host)
        for path in (*([settings] if isinstance(settings, str) else []), *daemon.settings)
        if (match := _PID_FILE.search(value_or(read_text(source, path), "")))
    ]
    for path in (*named, *daemon.pid_files, *groups):
        text = read_text(source, path)
        if not isinstance(text, Unknown):
            yield from (word for word in text.split()[:_MOST_PIDS] if word.isdecimal())


def _of_unit(source: Source, daemon: _Daemon) -> dict[str, JobLimit]:
    """Return the limits in the unit file and the drop-in files of a daemon that does not run."""
    if all(isinstance(source.read(path), Unknown) for path in daemon.settings):
        return {}
    main, drop_ins = None, {}
    for folder in _UNIT_FOLDERS:
        path = f"{folder}/{daemon.unit}.service"
        if not isinstance(read_text(source, path), Unknown):
            main = path
        for name in items_of(source.names(f"{path}.d")):
            drop_ins[name] = f"{path}.d/{name}"
    if main is None:
        return {}
    limits: dict[str, JobLimit] = {}
    paths = [drop_ins[name] for name in sorted(drop_ins) if name.endswith(".conf")]
    for path in (main, *paths):
        text = read_text(source, path)
        for name, value in ({} if isinstance(text, Unknown) else parse_unit(text)).items():
            limits.pop(name, None)
            if value is not None:
                limits |= _owned({name: value}, f"of the unit {daemon.unit}.service", path)
    return limits


def _of_login(source: Source) -> dict[str, JobLimit]:
    if any(not isinstance(source.read(path), Unknown) for path in _IN_CONTAINER):
        return {}
    names = sorted(name for name in items_of(source.names(_PAM_FOLDER)) if name.endswith(".conf"))
    limits: dict[str, JobLimit] = {}
    for path in (_PAM_FILE, *(f"{_PAM_FOLDER}/{name}" for name in names)):
        text = read_text(source, path)
        if not isinstance(text, Unknown):
            limits |= _owned(parse_pam_limits(text), f"of a login, in {path}", path)
    return limits


def _owned(limits: dict[str, Number], owner: str, path: str) -> dict[str, JobLimit]:
    return {
        name: JobLimit(value=value, owner=owner, evidence=(file_ref(path),)) for name, value in limits.items()
    }
