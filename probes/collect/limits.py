"""Collect the resource limits of this process and the size of its shared memory."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Limit, Limits
from probes.parsers.host.procfs import parse_limits
from probes.reading.space import DF, spaces
from probes.sources.base import Source, read_text

_LIMITS = "/proc/self/limits"
_SHM = "/dev/shm"  # noqa: S108 - the mount itself, not a file in it


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `limits`."""
    text = read_text(source, _LIMITS)
    soft = {} if isinstance(text, Unknown) else parse_limits(text)

    def limit(name: str) -> Limit:
        if isinstance(text, Unknown):
            return text
        return soft.get(name, Unknown(Reason.UNPARSABLE, f"{_LIMITS} has no {name!r}"))

    total, free = _shm(source)
    return {
        "limits": Limits(
            memlock_bytes=limit("Max locked memory"),
            nofile=limit("Max open files"),
            stack_bytes=limit("Max stack size"),
            shm_bytes=total,
            shm_free_bytes=free,
            processes=limit("Max processes"),
            core_bytes=limit("Max core file size"),
            evidence=(file_ref(_LIMITS), command_ref(DF)),
        )
    }


def _shm(source: Source) -> tuple[int | Unknown, int | Unknown]:
    spaces_by_mount = spaces(source)
    if isinstance(spaces_by_mount, Unknown):
        return spaces_by_mount, spaces_by_mount
    space = spaces_by_mount.get(_SHM)
    if space is None:
        absent = Unknown(Reason.NOT_SUPPORTED, f"nothing is mounted on {_SHM}")
        return absent, absent
    return space.total_bytes, space.available_bytes
