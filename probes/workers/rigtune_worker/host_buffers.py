"""Allocate host memory for copies to and from a GPU: on a chosen NUMA node, with or without page lock."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Sequence

import torch

from .protocol import CaseError


@contextlib.contextmanager
def bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """Run on these CPUs with one thread.

    Without CPUs nothing changes. Raises CaseError if the kernel refuses. The kernel places a page on the node
    of the thread that first writes it, and torch's other threads keep their CPUs.
    """
    if not cpus:
        yield
        return
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise CaseError(
            "unsupported", f"this process may use none of the CPUs {min(cpus)} to {max(cpus)}"
        ) from error
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def page_locked(tensor: torch.Tensor, wanted: bool) -> Iterator[None]:
    """Lock the pages of a host tensor for the GPU if `wanted`. Raises CaseError if the driver refuses.

    torch's own pinned memory comes from a cache, so from the node that first wrote it. Registering (CUDA
    runtime API, cudaHostRegister) leaves the pages in place.
    """
    if not wanted:
        yield
        return
    runtime = torch.cuda.cudart()
    code = int(runtime.cudaHostRegister(tensor.data_ptr(), tensor.numel() * tensor.element_size(), 0))
    if code:
        # The runtime reports the error at the next call, so this call clears it.
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device="cuda")
        raise CaseError("unsupported", f"host memory cannot be page-locked (CUDA error {code})")
    try:
        yield
    finally:
        runtime.cudaHostUnregister(tensor.data_ptr())
