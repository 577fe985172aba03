"""Read the CPUs and memory of this host by NUMA node, and bind threads to CPUs."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Iterable

from .rank_conditions import available_on_host, field_bytes, text_of

CPU = "/sys/devices/system/cpu/cpu{}"
NODE_MEMORY = "/sys/devices/system/node/node{}/meminfo"


def bind(cpus: Iterable[int]) -> None:
    """Keep all threads of this process on these CPUs.

    Running threads of torch have their own masks; new threads inherit the mask.
    """
    cpus = set(cpus)
    for thread in threads():
        with contextlib.suppress(ProcessLookupError):  # the thread has just ended
            os.sched_setaffinity(thread, cpus)


def threads() -> list[int]:
    """Return the ids of the threads of this process; without procfs, only the id of the first thread."""
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        return [0]


def usable_cpus(numa_cpus: dict[str, list[int]], node: int, most: int) -> list[int]:
    """Return one CPU for each physical core of the node that this process may use; at most `most` CPUs.

    If the CPUs of the nodes are unknown, all CPUs belong to the node.
    """
    allowed = os.sched_getaffinity(0)
    cpus_of_node = numa_cpus.get(str(node)) if numa_cpus else sorted(allowed)
    cores = {}
    for cpu in sorted(allowed.intersection(cpus_of_node or ())):
        cores.setdefault(min(cpu_list(CPU.format(cpu) + "/topology/thread_siblings_list") or [cpu]), cpu)
    return list(cores.values())[:most]


def last_level_cache_bytes(cpus: Iterable[int]) -> int:
    """Return the total size of the last-level caches of these CPUs, each counted once; 0 if unknown."""
    folders = [CPU.format(cpu) + "/cache/index3" for cpu in cpus]
    caches = {text_of(folder + "/shared_cpu_list"): text_of(folder + "/size") for folder in folders}
    sizes = [re.match(r"(\d+)K", size) for size in caches.values()]
    return sum(int(size.group(1)) * 1024 for size in sizes if size)


def free_bytes(node: int) -> int:
    """Return the free memory of the node, or of the whole host if that is less; 0 if unknown."""
    sizes = (field_bytes(NODE_MEMORY.format(node), "MemFree"), available_on_host())
    return min((size for size in sizes if size), default=0)


def share_on_node(addresses: list[int], node: int) -> float | None:
    """Return the share of pages on the node, in the mappings that contain the addresses; None if unknown.

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
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text_of(path))
    return [cpu for first, last in ranges for cpu in range(int(first), int(last or first) + 1)]
