"""Read the CPUs and memory of this host by NUMA node, and bind threads to CPUs."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Iterable

CPU = "/sys/devices/system/cpu/cpu{}"
NODE_MEMORY = "/sys/devices/system/node/node{}/meminfo"


def bind(cpus: Iterable[int]) -> None:
    """Keep all threads of this process on these CPUs.

    Running threads of torch have their own masks; new threads inherit the mask.
    """
    cpus = set(cpus)
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), cpus)


def usable_cpus(numa_cpus: dict[str, list[int]], node: int, most: int) -> list[int]:
    """Return one CPU per physical core of the node that this process may use, at most `most`.

    All CPUs count if none is stated for the node.
    """
    allowed = os.sched_getaffinity(0)
    cpus_of_node = numa_cpus.get(str(node)) if numa_cpus else sorted(allowed)
    cores = {}
    for cpu in sorted(allowed.intersection(cpus_of_node or ())):
        cores.setdefault(min(cpu_list(CPU.format(cpu) + "/topology/thread_siblings_list") or [cpu]), cpu)
    return list(cores.values())[:most]


def last_level_cache_bytes(cpus: Iterable[int]) -> int:
    """Return the last-level caches of these CPUs together, each counted once; 0 if unknown."""
    caches = {}
    for cpu in cpus:
        cache = CPU.format(cpu) + "/cache/index3"
        size = re.match(r"(\d+)K", text_of(cache + "/size"))
        if size:
            caches[text_of(cache + "/shared_cpu_list")] = int(size.group(1)) * 1024
    return sum(caches.values())


def free_bytes(node: int) -> int:
    """Return the free memory of the node, or of the whole host if that is less; 0 if unknown."""
    sizes = (field_bytes(NODE_MEMORY.format(node), "MemFree"), memory_bytes())
    return min((size for size in sizes if size), default=0)


def memory_bytes() -> int:
    """Return the memory available without swapping, ignoring a container's limit; 0 if unknown."""
    return field_bytes("/proc/meminfo", "MemAvailable")


def field_bytes(path: str, field: str) -> int:
    line = re.search(field + r":\s+(\d+) kB", text_of(path))
    return int(line.group(1)) * 1024 if line else 0


def share_on_node(addresses: list[int], node: int) -> float | None:
    """Return the share of pages on the node, in the mappings that hold the addresses; None if unknown.

    Source: proc(5), numa_maps.
    """
    mappings = {}
    for line in text_of("/proc/self/numa_maps").splitlines():
        counts = re.findall(r" N(\d+)=(\d+)", line)
        mappings[int(line.split(" ", 1)[0], 16)] = {int(on): int(pages) for on, pages in counts}
    pages_by_node = [
        mappings[max(starts)]
        for address in addresses
        if (starts := [start for start in mappings if start <= address])
    ]
    total = sum(sum(pages.values()) for pages in pages_by_node)
    return sum(pages.get(node, 0) for pages in pages_by_node) / total if total else None


def cpu_list(path: str) -> list[int]:
    """Return the numbers of a list such as `0-3,8`; empty without a file."""
    cpus: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text_of(path)):
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def text_of(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
