"""Measure the peak memory of this process, with the same two calls on a GPU and on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys

import torch


class PeakMemory:
    """Peak memory since its creation; create it before the model is built.

    CUDA: the most bytes that torch's allocator had handed out (`allocated_bytes`) and had taken from the
    driver (`reserved_bytes`). CPU: the peak resident set size minus the resident set size at creation, so
    without the interpreter and torch itself; there is no separate reservation.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            return
        return_freed_memory()
        reset_peak_resident()
        self.baseline_bytes = status_bytes("VmRSS")

    @property
    def allocated_bytes(self) -> int:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return max(0, status_bytes("VmHWM") - self.baseline_bytes)

    @property
    def reserved_bytes(self) -> int:
        return (
            torch.cuda.max_memory_reserved(self.device)
            if self.device.type == "cuda"
            else self.allocated_bytes
        )


def return_freed_memory() -> None:
    """Let glibc return freed pages, so that an earlier model does not count in the baseline."""
    # Another C library has no malloc_trim; the baseline is then a little high.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def reset_peak_resident() -> None:
    """Reset the kernel's peak to the present size (proc(5), clear_refs)."""
    # If the process may not write the file, the peak includes memory from the start of the process; this
    # matters only for very small models.
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def status_bytes(key: str) -> int:
    """Return the size `key` from /proc/self/status, or the peak from getrusage if the file has no such size.

    On Linux the latter starts at the peak of the process that this process was forked from, so it is only an
    upper bound.
    """
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
