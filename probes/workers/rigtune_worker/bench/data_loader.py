"""Measure how fast torch's DataLoader delivers batches, by its number of workers, on all local ranks."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from ..image_data import ITEM_BYTES, Endless, ImageLike
from ..parallel import cases_within_budget, largest
from ..protocol import Answer, CaseError, Timing
from ..rank_conditions import available_on_host
from ..sampling import FEWEST_SAMPLES, half_width
from ..storage_file import small_files

PREFETCH = 2
"""Batches that each worker prepares ahead: torch's default."""
WORKER_BYTES = 150 * 1024**2
"""Approximate memory of a forked worker, such as its own copy of Python's objects, without its batches."""
SHARE_OF_MEMORY = 0.5
"""Share of the available memory for all workers of all ranks."""
SHARED_MEMORY = "/dev/shm"


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {num_workers, batch_size}, fewest workers first.

    A case that fails on one rank ends the sweep on all ranks.
    """
    torch.set_num_threads(1)  # for collating and copying; the other CPUs are for the workers
    path = request["settings"]["data_path"]
    data = ImageLike(small_files(path) if path else [])
    answer.seen.update(data="files" if data.paths else "synthetic", data_path=path if data.paths else "")
    failed = False
    for case, share_s in cases_within_budget(request, answer, device):
        if failed:
            answer.skipped(case, "fewer workers failed")
            continue
        try:
            check_room(case["num_workers"], case["batch_size"], dist.get_world_size())
            answer.sample(case, measure(data, case["num_workers"], case["batch_size"], share_s))
        except CaseError as error:
            answer.failure(error.kind, str(error), case)
            failed = True
        failed = largest(device, float(failed))[0] > 0


def check_room(workers: int, batch_size: int, ranks: int) -> None:
    """Raise CaseError if the workers' batches exceed /dev/shm or the memory: the workers would be killed."""
    batches_bytes = ranks * workers * (PREFETCH + 1) * batch_size * ITEM_BYTES
    try:
        space = os.statvfs(SHARED_MEMORY)
    except OSError:
        return
    free_bytes = space.f_bavail * space.f_frsize
    if batches_bytes > free_bytes:
        raise CaseError(
            "out_of_memory",
            f"{SHARED_MEMORY} is too small: the batches of all workers need "
            f"{mib(batches_bytes)} of it (ranks: {ranks}, workers of each rank: {workers}), "
            f"{mib(free_bytes)} are free; in a container give it more (--shm-size)",
        )
    needed_bytes, available_bytes = batches_bytes + ranks * workers * WORKER_BYTES, available_on_host()
    if available_bytes and needed_bytes > SHARE_OF_MEMORY * available_bytes:
        raise CaseError(
            "out_of_memory",
            f"all workers need about {mib(needed_bytes)} of memory (ranks: {ranks}, workers of each rank: "
            f"{workers}), {mib(available_bytes)} are available",
        )


def mib(size_bytes: int) -> str:
    return f"{size_bytes // 1024**2} MiB"


def measure(data: ImageLike, workers: int, batch_size: int, budget_s: float) -> Timing:
    """Return seconds per batch; a sample has one batch per worker, because these batches arrive together.

    Raises CaseError. The measurement always uses the whole time, because a rank that ended early would leave
    its CPUs to the other ranks.
    """
    ends = time.monotonic() + budget_s
    loader = DataLoader(
        data,
        batch_size=batch_size,
        sampler=Endless(),
        num_workers=workers,
        prefetch_factor=PREFETCH if workers else None,
    )
    durations_s: list[float] = []
    group, ahead = max(1, workers), PREFETCH * workers + 1
    try:
        batches = iter(loader)
        take(batches, ahead)  # the first batches were prepared while the workers started
        while time.monotonic() < ends or len(durations_s) < FEWEST_SAMPLES:
            started = time.perf_counter()
            take(batches, group)
            durations_s.append((time.perf_counter() - started) / group)
    except Exception as error:  # errors of the data set are raised by the loader
        # torch names the signal in the first of two errors.
        raise CaseError(*cause_of(f"{error.__cause__ or ''}\n{error}", workers)) from error
    return Timing(durations_s, ahead, group, half_width(durations_s))


def take(batches: Iterator[torch.Tensor], count: int) -> None:
    for _ in range(count):
        next(batches)


def cause_of(words: str, workers: int) -> tuple[str, str]:
    """Return kind and cause of a DataLoader's error, in one line."""
    if "shared memory" in words or "Bus error" in words or "No space left" in words:
        return (
            "out_of_memory",
            f"{SHARED_MEMORY} is too small (workers of each rank: {workers}); "
            "in a container give it more (--shm-size)",
        )
    if "signal: Killed" in words:
        return (
            "out_of_memory",
            f"one of {workers} DataLoader workers was killed, usually by the kernel because memory ran out",
        )
    return "crashed", f"one of {workers} DataLoader workers failed: {words.strip().splitlines()[-1]}"
