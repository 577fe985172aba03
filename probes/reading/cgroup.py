"""Read the CPU and memory limits of this process's control groups, versions 1 and 2 (cgroups(7))."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from probes.base.record import Reason, Record, Unknown, map_both, map_known, quoted, when_missing
from probes.parsers.host.mounts import MountRoot, parse_mountinfo
from probes.parsers.host.procfs import parse_cgroup
from probes.sources.base import Source, read_int, read_text

_CGROUP = "/proc/self/cgroup"
_MOUNTINFO = "/proc/self/mountinfo"
_NO_LIMIT_BYTES = 1 << 60
"""A value of at least this means "no limit".

Version 1 writes the largest number of whole pages where version 2 writes `max`."""
_Value = float | Unknown | None


class Limit(Record, kw_only=True):
    """The tightest limit on the path up to the root, and the file that sets the limit."""

    value: _Value
    """Value of the limit; None if there is no limit."""
    file: str = ""


def memory_limit(source: Source) -> Limit:
    """Return the maximum memory that the group may use, in bytes."""
    files = {"memory.max": _memory_limit, "memory.limit_in_bytes": _memory_limit}
    return _tightest(source, "memory", files)


def cpu_quota(source: Source) -> Limit:
    """Return the CPU time that the group may use, in CPUs: 2.5 for 250 ms in every 100 ms."""
    return _tightest(source, "cpu", {"cpu.max": _cpu_max, "cpu.cfs_quota_us": _cpu_quota})


def _tightest(source: Source, controller: str, files: Mapping[str, Callable[[Source, str], _Value]]) -> Limit:
    """Return the smallest limit in the group's folders, or the first limit that could not be read.

    In each folder, the first existing file counts.
    """
    folders = _folders(source, controller)
    if isinstance(folders, Unknown):
        return Limit(value=folders)
    tightest = Limit(value=None)
    for folder in folders:
        for name, read in files.items():
            file = f"{folder}/{name}"
            if when_missing(read_text(source, file), None) is None:
                continue
            value = read(source, file)
            if isinstance(value, Unknown):
                return Limit(value=value, file=file)
            if value is not None and (not isinstance(tightest.value, float) or value < tightest.value):
                tightest = Limit(value=value, file=file)
            break
    return tightest


def _folders(source: Source, controller: str) -> tuple[str, ...] | Unknown:
    """Return the group's folder and all folders above, in every hierarchy that may have the controller."""
    memberships, mounts = read_text(source, _CGROUP), read_text(source, _MOUNTINFO)
    if isinstance(memberships, Unknown):
        # A kernel without control groups sets no limits.
        return when_missing(memberships, ())
    if isinstance(mounts, Unknown):
        return mounts
    folders: list[str] = []
    for group in parse_cgroup(memberships):
        if group.controllers and controller not in group.controllers:
            continue
        kind = "cgroup" if group.controllers else "cgroup2"
        for mount in parse_mountinfo(mounts):
            if mount.kind == kind and (kind == "cgroup2" or controller in mount.options):
                folders.extend(_upwards(mount, group.path))
                break
    return tuple(folders)


def _upwards(mount: MountRoot, path: str) -> Iterator[str]:
    """Yield the folders of `path` and its parents below the mount, which may show only a part of the tree."""
    group, root = PurePosixPath(path), PurePosixPath(mount.root)
    inside = group.relative_to(root) if group.is_relative_to(root) else PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    for part in (inside, *inside.parents):
        yield str(PurePosixPath(mount.path) / part)


def _memory_limit(source: Source, file: str) -> _Value:
    text = read_text(source, file)
    if isinstance(text, Unknown):
        return text
    if text == "max":
        return None
    if not text.isdecimal():
        return Unknown(Reason.UNPARSABLE, f"{file}: {quoted(text)}")
    return float(text) if int(text) < _NO_LIMIT_BYTES else None


def _cpu_max(source: Source, file: str) -> _Value:
    text = read_text(source, file)
    if isinstance(text, Unknown):
        return text
    quota, _, period = text.partition(" ")
    if quota == "max":
        return None
    if quota.isdecimal() and period.isdecimal() and int(period):
        return int(quota) / int(period)
    return Unknown(Reason.UNPARSABLE, f"{file}: {quoted(text)}")


def _cpu_quota(source: Source, file: str) -> _Value:
    quota_us = read_int(source, file)
    period_us = map_known(quota_us, lambda _: read_int(source, file.replace("quota", "period")))
    return map_both(
        quota_us, period_us, lambda quota, period: quota / period if quota > 0 and period > 0 else None
    )
