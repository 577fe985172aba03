"""Collect the host's resources for a job: memory, resource limits, filesystems and electrical power."""

from probes.base.record import (
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Unknown,
    command_ref,
    file_ref,
    map_known,
)
from probes.collect.collecting import CollectOptions
from probes.facts import Filesystem, Limit, Limits, Memory, Power
from probes.parsers.host.mounts import Mount, Space, parse_df, parse_mounts
from probes.parsers.host.procfs import parse_huge_pages, parse_limits, parse_meminfo
from probes.reading.cgroup import memory_limit
from probes.reading.texts import outputs
from probes.sources.base import Source, read_text

_MEMINFO = "/proc/meminfo"
_LIMITS = "/proc/self/limits"
_MOUNTS = "/proc/self/mounts"
_SHM = "/dev/shm"  # noqa: S108 - the mount itself, not a file in it
_DF = ("df", "-Pk")
_DF_LOCAL = ("df", "-Pkl")
_KERNEL_KINDS = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
    "efivarfs", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fusectl", "hugetlbfs", "mqueue", "nsfs",
    "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tmpfs",
    "tracefs",
})  # fmt: skip
"""Kinds of filesystem in which jobs store no data, except in a tmpfs on /tmp.

Source: Linux 6.12, Documentation/filesystems.
"""
_SYSTEM_FOLDERS = (
    "/boot", "/dev", "/etc", "/proc", "/run", "/snap", "/sys", "/usr", "/var/lib/docker",
    "/var/lib/kubelet",
)  # fmt: skip
_IPMI = "ipmi"
_POWER_READING = ("ipmitool", "dcmi", "power", "reading")
_SENSORS = ("ipmitool", "sdr", "elist")
_SUPPLIES = ("dmidecode", "-t", "39")
_IPMI_TIMEOUT_S = 20.0
"""Deadline of ipmitool; a management controller reads only a few sensors per second."""


def collect_memory(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `memory`."""
    text = read_text(source, _MEMINFO)
    sizes = {} if isinstance(text, Unknown) else parse_meminfo(text)
    # Every kernel reports MemFree. A file without this line is only a part of the original.
    if "MemFree" in sizes:
        absent = Reason.NOT_SUPPORTED
    else:
        absent = Reason.NOT_RECORDED if sizes else Reason.UNPARSABLE

    def size(name: str) -> int | Unknown:
        if isinstance(text, Unknown):
            return text
        return sizes.get(name, Unknown(absent, f"{_MEMINFO} has no {name}"))

    limit = memory_limit(source)
    files = [_MEMINFO, *([limit.file] if limit.file else [])]
    return {
        "memory": Memory(
            total_bytes=size("MemTotal"),
            available_bytes=size("MemAvailable"),
            limit_bytes=int(limit.value) if isinstance(limit.value, float) else limit.value,
            swap_total_bytes=size("SwapTotal"),
            hugepages_total=map_known(text, parse_huge_pages),
            hugepage_bytes=size("Hugepagesize"),
            evidence=tuple(map(file_ref, files)),
        )
    }


def collect_limits(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `limits`: the limits of this process and of a job, and the space in shared memory."""
    from probes.reading.job_limits import job_limits  # noqa: PLC0415 - with its parsers

    of_job = job_limits(source)
    text = read_text(source, _LIMITS)
    soft = map_known(text, parse_limits)

    def limit(name: str) -> Limit:
        if isinstance(soft, Unknown):
            return soft
        return soft.get(name, Unknown(Reason.UNPARSABLE, f"{_LIMITS} has no {name!r}"))

    not_mounted = Unknown(Reason.NOT_SUPPORTED, f"nothing is mounted on {_SHM}")
    shm = map_known(read_spaces(source), lambda spaces: spaces.get(_SHM, not_mounted))
    return {
        "limits": Limits(
            memlock_bytes=limit("Max locked memory"),
            nofile=limit("Max open files"),
            stack_bytes=limit("Max stack size"),
            shm_bytes=map_known(shm, lambda space: space.total_bytes),
            shm_free_bytes=map_known(shm, lambda space: space.available_bytes),
            processes=limit("Max processes"),
            core_bytes=limit("Max core file size"),
            job_memlock_bytes=of_job["memlock"].value if "memlock" in of_job else NOT_RECORDED,
            job_nofile=of_job["nofile"].value if "nofile" in of_job else NOT_RECORDED,
            job_limits_owner=", ".join(dict.fromkeys(job_limit.owner for job_limit in of_job.values()))
            or NOT_RECORDED,
            evidence=(
                file_ref(_LIMITS),
                *dict.fromkeys(ref for job_limit in of_job.values() for ref in job_limit.evidence),
                command_ref(_DF),
            ),
        )
    }


def collect_storage(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `storage`: disks, network mounts and the container's own root, in mount order."""
    text = read_text(source, _MOUNTS)
    if isinstance(text, Unknown):
        return {"storage": text}
    spaces = read_spaces(source)
    return {"storage": tuple(_filesystem(mount, spaces) for mount in parse_mounts(text) if _is_usable(mount))}


def _is_usable(mount: Mount) -> bool:
    """Return whether a job may store data in the filesystem."""
    if mount.kind in _KERNEL_KINDS:
        return mount.kind == "tmpfs" and mount.path == "/tmp"  # noqa: S108 - a mount point, not a file
    return not any(mount.path == folder or mount.path.startswith(f"{folder}/") for folder in _SYSTEM_FOLDERS)


def _filesystem(mount: Mount, spaces: dict[str, Space] | Unknown) -> Filesystem:
    space = map_known(spaces, lambda spaces: _space(mount, spaces))
    unknown = isinstance(space, Unknown)
    return Filesystem(
        mount=mount.path,
        device=mount.device,
        kind=mount.kind,
        total_bytes=map_known(space, lambda space: space.total_bytes),
        free_bytes=map_known(space, lambda space: space.available_bytes),
        read_only="ro" in mount.options,
        evidence=(file_ref(_MOUNTS),) if unknown else (file_ref(_MOUNTS), command_ref(_DF)),
    )


def _space(mount: Mount, spaces: dict[str, Space]) -> Space | Unknown:
    """Return the space of a mount; df lists a device with several mount points only once."""
    if mount.path in spaces:
        return spaces[mount.path]
    same_device = (
        space for space in spaces.values() if mount.device.startswith("/") and space.device == mount.device
    )
    return next(same_device, Unknown(Reason.ERROR, f"df does not list {mount.path}"))


def read_spaces(source: Source) -> dict[str, Space] | Unknown:
    """Return the size and the free space of each filesystem, by mount point.

    If df hangs because the server of a network filesystem does not answer, only local filesystems are read.
    The exit code of df is ignored, because df reports an error even if only one filesystem cannot be read.
    """
    failure = Unknown(Reason.UNPARSABLE, "no filesystem in the output of df")
    for argv in (_DF, _DF_LOCAL):
        result = source.run(argv)
        filesystems = parse_df(result.stdout.decode("utf-8", "replace"))
        if filesystems:
            return {space.path: space for space in filesystems}
        failure = result.failure or failure
        if failure.reason is not Reason.TIMEOUT:
            break
    return failure


def collect_power(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `power`: readings of the management controller, and the capacity that firmware states.

    Only deep checks start ipmitool and dmidecode.
    """
    evidence: list[EvidenceRef] = []
    failed, alarms = _sensors(source, evidence)
    return {
        "power": Power(
            system_w=_first_watts(source, _IPMI, _POWER_READING, evidence),
            supply_capacity_w=_first_watts(source, "dmidecode", _SUPPLIES, evidence),
            failed_supplies=failed,
            sensor_alarms=alarms,
            evidence=tuple(dict.fromkeys(evidence)),
        )
    }


def _first_watts(
    source: Source, kind: str, argv: tuple[str, ...], evidence: list[EvidenceRef]
) -> float | Unknown:
    """Return the power in W from the first output of this kind that states one."""
    texts = outputs(source, kind, argv, timeout_s=_IPMI_TIMEOUT_S)
    if isinstance(texts, Unknown):
        return texts
    from probes.parsers.host.ipmi import parse_capacity, parse_power  # noqa: PLC0415 - deep checks only

    parse = parse_power if kind == _IPMI else parse_capacity
    unknown: Unknown = NOT_RECORDED
    for output in texts:
        value = parse(output.text)
        if not isinstance(value, Unknown):
            evidence.append(output.evidence)
            return value
        unknown = value if output.evidence.source == "command" else NOT_RECORDED
    return unknown


def _sensors(
    source: Source, evidence: list[EvidenceRef]
) -> tuple[tuple[str, ...] | Unknown, tuple[str, ...] | Unknown]:
    """Return the power supplies that failed, and the sensors beyond a critical limit."""
    texts = outputs(source, _IPMI, _SENSORS, timeout_s=_IPMI_TIMEOUT_S, even_failed=True)
    if isinstance(texts, Unknown):
        return texts, texts
    from probes.parsers.host.ipmi import alarms, failed_supplies, has_supplies, parse_sensors  # noqa: PLC0415

    sensors = tuple(sensor for output in texts for sensor in parse_sensors(output.text))
    if not sensors:
        return NOT_RECORDED, NOT_RECORDED
    evidence += [output.evidence for output in texts]
    none = Unknown(Reason.NOT_SUPPORTED, "no sensor of a power supply")
    return failed_supplies(sensors) if has_supplies(sensors) else none, alarms(sensors)
