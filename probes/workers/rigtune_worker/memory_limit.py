"""Limit the memory of this process, so that a trial that needs too much fails alone and the host survives."""

from __future__ import annotations

import contextlib
import os
import resource

import torch

from .peak_memory import status_bytes
from .protocol import CaseError
from .rank_conditions import available_on_host, text_of

MARGIN = 0.8
"""Share of the currently available memory that may be used; the remainder is for other programs."""
MEMORY_INFO = "/proc/meminfo"
OWN_GROUPS = "/proc/self/cgroup"
GROUPS = "/sys/fs/cgroup"


def available_bytes() -> int:
    """Return the memory available without swapping, within the control groups' limits; 0 if unknown."""
    limits = (available_on_host(MEMORY_INFO) or None, available_in_groups())
    return max(0, min((limit for limit in limits if limit is not None), default=0))


def available_in_groups() -> int | None:
    """Return the memory that is still available in the tightest control group of this process.

    The result is None if no control group has a limit. Pages of files that were not used recently count as
    available, because the kernel can drop them. Version 2 has memory.max, memory.current and memory.stat;
    version 1 has limit_in_bytes, usage_in_bytes and the same stat (kernel documentation,
    admin-guide/cgroup-v2 and cgroup-v1/memory).
    """
    left = []
    for line in text_of(OWN_GROUPS).splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            root, names = GROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = f"{GROUPS}/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts) + 1):
            folder = os.path.join(root, *parts[:depth])
            limit, used, stat = (text_of(os.path.join(folder, name)) for name in (*names[:2], "memory.stat"))
            if limit.isdigit() and used.isdigit():
                sizes = dict(row.split(maxsplit=1) for row in stat.splitlines())
                left.append(int(limit) - int(used) + int(sizes.get(names[2], 0)))
    return min(left) if left else None


def limit_memory(device: torch.device, limit_bytes: int = 0, ranks: int = 1) -> None:
    """Limit the memory of this process to `limit_bytes` from now on.

    With 0, a GPU has no limit, and a CPU rank has its share of the available memory. On a CPU the limit
    concerns private writable memory (RLIMIT_DATA, which includes these mappings since Linux 4.7,
    getrlimit(2)), but not reserved address space. At the limit, torch raises its out-of-memory error.
    """
    if device.type == "cuda":
        if limit_bytes:
            torch.cuda.set_per_process_memory_fraction(
                min(1.0, limit_bytes / torch.cuda.get_device_properties(device).total_memory), device
            )
        return
    limit_bytes = limit_bytes or int(MARGIN * available_bytes() / ranks)
    if not limit_bytes:
        return
    most = status_bytes("VmData") + limit_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def refuse_beyond_memory(needed_bytes: int, device: torch.device) -> None:
    """Raise CaseError if a CPU rank would exceed its share of the available memory; on GPUs the allocation
    fails by itself.
    """
    share_bytes = int(MARGIN * available_bytes() / int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if device.type == "cpu" and 0 < share_bytes < needed_bytes:
        needed, share = (f"{size / 2**30:.1f} GiB" for size in (needed_bytes, share_bytes))
        raise CaseError(
            "out_of_memory", f"takes {needed} of memory on each rank, but only {share} are available"
        )


def prefer_to_be_killed() -> None:
    """Let the kernel end this process first when the host runs out of memory (proc(5), oom_score_adj)."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
