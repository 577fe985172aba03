"""Measure the peak memory of this process, with the same two calls on a GPU and on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys

import torch

from .rank_conditions import field_bytes


class PeakMemory:
    """The peak memory since this object was created; create it before the model is built.

    On CUDA, `allocated_bytes` is the largest number of bytes that torch's allocator had handed out, and
    `reserved_bytes` the largest number that it had taken from the driver. On a CPU both are the peak resident
    set size minus the resident set size at creation, which excludes the interpreter and torch itself.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            return
        # malloc_trim makes glibc return freed pages to the kernel, so that the baseline does not include an
        # earlier model. Other C libraries have no malloc_trim; the baseline is then a little high.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        # The kernel resets its peak to the present size (proc(5), clear_refs). If the process may not write
        # this file, the peak includes the start of the process, which is relevant only for very small models.
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self.baseline_bytes = status_bytes("VmRSS")

    @property
    def allocated_bytes(self) -> int:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return max(0, status_bytes("VmHWM") - self.baseline_bytes)

    @property
    def reserved_bytes(self) -> int:
        on_gpu = self.device.type == "cuda"
        return torch.cuda.max_memory_reserved(self.device) if on_gpu else self.allocated_bytes


def status_bytes(key: str) -> int:
    """Return the size `key` from /proc/self/status, or the peak from getrusage if the file lacks this size.

    On Linux the peak from getrusage includes the peak of the process from which this process was forked, so
    it is only an upper bound.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return field_bytes("/proc/self/status", key) or peak_bytes
