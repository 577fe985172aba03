"""Read the CPU and memory limits of this process's control groups, versions 1 and 2 (cgroups(7))."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from probes.base.record import Reason, Record, Unknown, when_missing
from probes.parsers.host.mounts import MountRoot, parse_mountinfo
from probes.parsers.host.procfs import parse_cgroup
from probes.sources.base import Source, read_int, read_text

_CGROUP = "/proc/self/cgroup"
_MOUNTINFO = "/proc/self/mountinfo"
_NO_LIMIT_BYTES = 1 << 60
"""Bound for "no limit": version 1 writes the largest number of whole pages instead."""


class Limit(Record, kw_only=True):
    """The tightest limit on the path up to the root, and the file that sets it."""

    value: float | Unknown | None
    """Value of the limit; None if nothing limits."""
    file: str = ""


def memory_limit(source: Source) -> Limit:
    """Return the most memory that the group may use, in bytes."""
    return _tightest(source, "memory", _read_memory_limit)


def cpu_quota(source: Source) -> Limit:
    """Return the CPU time that the group may use, in CPUs: 2.5 for 250 ms in every 100 ms."""
    return _tightest(source, "cpu", _read_cpu_quota)


def _tightest(source: Source, controller: str, read: Callable[[Source, str], Limit]) -> Limit:
    folders = _folders(source, controller)
    if isinstance(folders, Unknown):
        return Limit(value=folders)
    tightest = Limit(value=None)
    for folder in folders:
        limit = read(source, folder)
        if isinstance(limit.value, Unknown):
            return limit
        if limit.value is not None and (
            not isinstance(tightest.value, float) or limit.value < tightest.value
        ):
            tightest = limit
    return tightest


def _folders(source: Source, controller: str) -> tuple[str, ...] | Unknown:
    """Return the group's own folder and all above it, in every hierarchy that may hold the controller."""
    memberships, mounts = read_text(source, _CGROUP), read_text(source, _MOUNTINFO)
    if isinstance(memberships, Unknown):
        # A kernel without control groups limits nothing.
        return when_missing(memberships, ())
    if isinstance(mounts, Unknown):
        return mounts
    folders: list[str] = []
    for group in parse_cgroup(memberships):
        if group.controllers and controller not in group.controllers:
            continue
        kind = "cgroup" if group.controllers else "cgroup2"
        mount = next(
            (
                m
                for m in parse_mountinfo(mounts)
                if m.kind == kind and (kind == "cgroup2" or controller in m.options)
            ),
            None,
        )
        if mount is not None:
            folders.extend(_upwards(mount, group.path))
    return tuple(folders)


def _upwards(mount: MountRoot, path: str) -> Iterator[str]:
    """Yield the folders of `path` and its parents below the mount, which may show only a part of the tree."""
    group, root = PurePosixPath(path), PurePosixPath(mount.root)
    inside = group.relative_to(root) if group.is_relative_to(root) else PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    folder = PurePosixPath(mount.path) / inside
    yield str(folder)
    for _ in inside.parts:
        folder = folder.parent
        yield str(folder)


def _read_memory_limit(source: Source, folder: str) -> Limit:
    for name in ("memory.max", "memory.limit_in_bytes"):
        file = f"{folder}/{name}"
        text = read_text(source, file)
        if isinstance(text, Unknown):
            if text.reason is not Reason.TOOL_MISSING:
                return Limit(value=text, file=file)
        elif text == "max":
            return Limit(value=None, file=file)
        elif not text.isdecimal():
            return Limit(value=Unknown(Reason.UNPARSABLE, f"{file}: {text[:60]!r}"), file=file)
        else:
            return Limit(value=float(text) if int(text) < _NO_LIMIT_BYTES else None, file=file)
    return Limit(value=None)


def _read_cpu_quota(source: Source, folder: str) -> Limit:
    file = f"{folder}/cpu.max"
    text = read_text(source, file)
    if not isinstance(text, Unknown):
        quota, _, period = text.partition(" ")
        if quota == "max":
            return Limit(value=None, file=file)
        if quota.isdecimal() and period.isdecimal() and int(period):
            return Limit(value=int(quota) / int(period), file=file)
        return Limit(value=Unknown(Reason.UNPARSABLE, f"{file}: {text[:60]!r}"), file=file)
    if text.reason is not Reason.TOOL_MISSING:
        return Limit(value=text, file=file)
    file = f"{folder}/cpu.cfs_quota_us"
    quota_us = read_int(source, file)
    if isinstance(quota_us, Unknown):
        return Limit(value=when_missing(quota_us, None), file=file)
    period_us = read_int(source, f"{folder}/cpu.cfs_period_us")
    if isinstance(period_us, Unknown):
        return Limit(value=period_us, file=file)
    return Limit(value=quota_us / period_us if quota_us > 0 and period_us > 0 else None, file=file)
