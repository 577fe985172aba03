"""Parse /proc/self/mounts, /proc/self/mountinfo and `df -Pk`."""

from probes.base.patterns import pattern
from probes.base.record import Record
from probes.base.units import KIB

_OCTAL = pattern(r"\\([0-7]{3})")
_DF = pattern(r"(.+?)\s+(\d+)\s+(\d+)\s+(\d+)\s+(?:\d+%|-)\s+(/.*)")


class Mount(Record, kw_only=True):
    """One line of /proc/self/mounts."""

    device: str
    path: str
    kind: str
    options: tuple[str, ...]


class MountRoot(Record, kw_only=True):
    """One line of /proc/self/mountinfo: a part of a filesystem and its mount point."""

    root: str
    path: str
    kind: str
    options: tuple[str, ...]
    """Options of the superblock, which contain the controllers of a version 1 cgroup mount."""


class Space(Record, kw_only=True):
    """One line of df."""

    device: str
    path: str
    total_bytes: int
    available_bytes: int
    """Space that a process without root rights may use."""


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts in order; of several mounts on one path, only the last, which hides the others."""
    rows = (line.split(" ") for line in text.splitlines())
    by_path = {
        _plain(row[1]): Mount(
            device=_plain(row[0]), path=_plain(row[1]), kind=row[2], options=tuple(row[3].split(","))
        )
        for row in rows
        if len(row) >= 4 and row[1].startswith("/")
    }
    return tuple(by_path.values())


def parse_mountinfo(text: str) -> tuple[MountRoot, ...]:
    """Return the mounts in order (proc(5), /proc/PID/mountinfo)."""
    halves = (line.partition(" - ") for line in text.splitlines())
    rows = ((left.split(" "), right.split(" ")) for left, _, right in halves)
    return tuple(
        MountRoot(
            root=_plain(fields[3]), path=_plain(fields[4]), kind=kinds[0], options=tuple(kinds[2].split(","))
        )
        for fields, kinds in rows
        if len(fields) >= 6 and len(kinds) >= 3
    )


def parse_df(text: str) -> tuple[Space, ...]:
    """Return the filesystems of `df -Pk`, without lines about filesystems that df could not query."""
    matches = (_DF.fullmatch(line) for line in text.splitlines())
    return tuple(
        Space(
            device=match[1],
            path=match[5],
            total_bytes=int(match[2]) * KIB,
            available_bytes=int(match[4]) * KIB,
        )
        for match in matches
        if match is not None
    )


def _plain(text: str) -> str:
    """Return a path with its spaces and tabs, which the kernel prints as octal escapes."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
