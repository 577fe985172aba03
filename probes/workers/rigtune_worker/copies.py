"""Run copies between devices: their data, host memory on a chosen NUMA node, and simultaneous copies."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Iterator, Sequence

import torch

from .protocol import CaseError

CELL_BYTES = 8
STEP = 0x9E3779B97F4A7C15 - 2**64
"""2**64 divided by the golden ratio, as a signed number: products with neighbouring numbers differ in all
bytes.

Source: Knuth, TAOCP 3, section 6.4.
"""
Pair = tuple  # of source and target, both torch.Tensor


def pattern(size_bytes: int, seed: int, device: torch.device) -> torch.Tensor:
    """Return 64-bit cells that all differ. Another seed gives another cell at every place."""
    cells = torch.arange(seed, seed + size_bytes // CELL_BYTES, device=device, dtype=torch.int64)
    return cells.mul_(STEP)


def check_pattern(data: torch.Tensor, seed: int, what: str) -> None:
    """Raise CaseError (wrong_result) if `data` is not the pattern of that seed."""
    wrong = int((data != pattern(data.numel() * CELL_BYTES, seed, data.device)).sum())
    if wrong:
        raise CaseError("wrong_result", f"{what}: {wrong} of {data.numel()} 64-bit words arrived wrong")


class Copies:
    """Copies that the current stream starts and waits for.

    Several copies run at the same time, each on its own streams. torch makes a copy between two GPUs wait for
    the current streams of both GPUs (aten/src/ATen/native/cuda/Copy.cu), so each copy has a stream on either
    GPU.
    """

    def __init__(self, *pairs: Pair) -> None:
        self.pairs = pairs
        self.streams = [
            [
                torch.cuda.Stream(name)
                for name in sorted({str(end.device) for end in pair if end.device.type == "cuda"})
            ]
            for pair in (pairs if len(pairs) > 1 else ())
        ]

    def __call__(self) -> None:
        if not any(self.streams):
            for source, target in self.pairs:
                target.copy_(source, non_blocking=True)
            return
        caller_stream = torch.cuda.current_stream()
        streams = tuple(itertools.chain.from_iterable(self.streams))
        for stream in streams:
            stream.wait_stream(caller_stream)
        for (source, target), streams_of_pair in zip(self.pairs, self.streams):
            with contextlib.ExitStack() as current:
                for stream in streams_of_pair:
                    current.enter_context(torch.cuda.stream(stream))
                target.copy_(source, non_blocking=True)
        for stream in streams:
            caller_stream.wait_stream(stream)


@contextlib.contextmanager
def bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """Run on these CPUs with one thread.

    If `cpus` is empty, nothing changes. Raises CaseError if the kernel does not allow this. A single thread
    is needed because the kernel places a page on the node of the thread that first writes the page, and
    torch's other threads keep their CPUs.
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
    """Lock the pages of a host tensor for the GPU if `wanted`.

    Raises CaseError if the driver does not allow this. torch's own pinned memory comes from a cache and is on
    the node that first wrote it. Registering (CUDA runtime API, cudaHostRegister) leaves the pages in place.
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
