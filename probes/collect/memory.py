"""Collect host memory and the limit of the control group."""

from __future__ import annotations

from probes.base.evidence import file_ref
from probes.base.record import Reason, Unknown, map_known
from probes.collect.collecting import CollectOptions
from probes.facts import Memory
from probes.parsers.host.procfs import parse_huge_pages, parse_meminfo
from probes.reading.cgroup import memory_limit
from probes.sources.base import Source, read_text

_MEMINFO = "/proc/meminfo"


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `memory`."""
    text = read_text(source, _MEMINFO)
    sizes = {} if isinstance(text, Unknown) else parse_meminfo(text)

    def size(name: str) -> int | Unknown:
        if isinstance(text, Unknown):
            return text
        # Every kernel states MemFree. A file without it is only a part of the original.
        absent = (
            Reason.UNPARSABLE
            if not sizes
            else Reason.NOT_SUPPORTED
            if "MemFree" in sizes
            else Reason.NOT_RECORDED
        )
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
            evidence=tuple(file_ref(file) for file in files),
        )
    }
