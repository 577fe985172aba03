"""Measure reads in the folder that contains the data, bypassing the page cache: sequential, random, and many
small files.

Writes are measured on request. Several requests are outstanding at a time, one per waiting thread. For
sequential reads the threads of one process share one file position. Random reads use several processes,
because one Python process could not start the reads fast enough. All cases are limited by time, so that slow
and fast devices need the same time. The contents of the data are not verified.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import random
import threading
import time
from typing import Any, Callable, Optional

from ..protocol import Answer, CaseError, SetupError, Timing
from ..sampling import take_samples
from ..storage_file import (
    FEWEST_FILES,
    SMALL_FILE_BYTES,
    DataFile,
    conditions_of,
    open_data,
    own_file,
    random_block,
    small_files,
    vary,
)
from ..worker_process import die_with_parent

PREPARE_SHARE = 0.3
"""Share of the time budget for writing the file that the cases read."""
SLICES = 24
LEAST_SLICE_S = 0.05
PATIENCE = 3.0
"""A file system that answers no request for this multiple of a case's time budget is considered to hang."""
LEAST_PATIENCE_S = 5.0
"""Shortest wait in seconds; a busy disk may delay a request for that long."""
LEAST_CASE_S = 0.5
"""Shortest time for a case, even if earlier cases have used the whole budget."""
MOST_PROCESSES = 4

Work = Callable[[int], Callable[[], int]]
"""Function that takes the number of a reader and returns the reader's request function.

A request transfers bytes and returns how many.
"""


def run(request: dict[str, Any], answer: Answer, device: None) -> None:
    """Measure every case {operation, order, block_bytes, queue_depth} in order.

    Raises SetupError if there is no file to read.
    """
    settings, cases = request["settings"], request["cases"]
    path, ends = settings["data_path"], time.monotonic() + request["budget_s"]
    data = open_data(path, settings["file_bytes"], PREPARE_SHARE * request["budget_s"])
    answer.seen.update(conditions_of(data, path))
    usable = len(os.sched_getaffinity(0))
    for number, case in enumerate(cases):
        share_s = max(LEAST_CASE_S, (ends - time.monotonic()) / (len(cases) - number))
        try:
            used, work = prepared(case, data, settings, PREPARE_SHARE * share_s)
        except SetupError as error:
            answer.skipped(case, str(error))
            continue
        processes = 1 if case["order"] == "sequential" else min(MOST_PROCESSES, case["queue_depth"], usable)
        timing, bytes_per_call = measure(work, case["queue_depth"], processes, share_s)
        direct = used is not None and used.direct
        answer.sample(case, timing, direct=float(direct), bytes_per_call=bytes_per_call, processes=processes)


def prepared(
    case: dict[str, Any], data: DataFile, settings: dict[str, Any], budget_s: float
) -> tuple[Optional[DataFile], Work]:
    """Return the file of a case (None for many files) and the `Work` of the case.

    A file of the user is never written. Raises SetupError if the case has no file to use.
    """
    path = settings["data_path"]
    if case["operation"] == "read_files":
        paths = small_files(path)
        if not paths:
            raise SetupError(f"{path} is not a folder with at least {FEWEST_FILES} files of up to 4 MiB")
        return None, file_reader(paths)
    if case["operation"] == "write" and not data.own:
        data = own_file(
            path if os.path.isdir(path) else os.path.dirname(path), settings["file_bytes"], budget_s
        )
    return data, block_work(data, case)


def block_work(data: DataFile, case: dict[str, Any]) -> Work:
    """Return the work of reading or writing a block: the next block of the process, or a random block."""
    size, fd = case["block_bytes"], data.fd
    blocks = data.size_bytes // size
    position = itertools.count()  # next() is atomic, so threads never get the same block
    if not data.direct:
        advice = os.POSIX_FADV_SEQUENTIAL if case["order"] == "sequential" else os.POSIX_FADV_RANDOM
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(fd, 0, 0, advice)

    def work(reader: int) -> Callable[[], int]:
        chance, is_sequential = random.Random(reader), case["order"] == "sequential"
        writes = case["operation"] == "write"
        buffer = random_block(size) if writes else mmap.mmap(-1, size)

        def request() -> int:
            place = (next(position) % blocks if is_sequential else chance.randrange(blocks)) * size
            if writes:
                vary(buffer)
                count = os.pwritev(fd, [buffer], place)
                if not data.direct:
                    os.fdatasync(fd)
            else:
                count = os.preadv(fd, [buffer], place)
            if count < size:
                raise OSError(errno.EIO, f"{count} bytes of {size}")
            if not data.direct:
                os.posix_fadvise(fd, place, size, os.POSIX_FADV_DONTNEED)
            return count

        return request

    return work


def file_reader(paths: list[str]) -> Work:
    """Return the work of reading a random file, after its data is dropped from the cache."""

    def work(reader: int) -> Callable[[], int]:
        chance = random.Random(reader)

        def request() -> int:
            fd = os.open(chance.choice(paths), os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                return len(os.read(fd, SMALL_FILE_BYTES))
            finally:
                os.close(fd)

        return request

    return work


def measure(work: Work, depth: int, processes: int, budget_s: float) -> tuple[Timing, float]:
    """Return seconds per request, one sample per slice of time, and bytes per request.

    Raises CaseError if a request fails.
    """
    shared = Shared(depth, processes)
    slice_s = max(LEAST_SLICE_S, budget_s / SLICES)
    pids = []
    try:
        for process in range(processes):
            pids.append(fork_readers(work, range(process, depth, processes), shared, process))
        patience_s = max(LEAST_PATIENCE_S, PATIENCE * budget_s)
        timing = take_samples(
            lambda _: observed(shared, slice_s, patience_s), budget_s=budget_s, sample_s=0.0
        )
    finally:
        shared.stop[0] = 1
        for pid in pids:
            os.waitpid(pid, 0)
    return timing, sum(shared.bytes) / sum(shared.calls)


def observed(shared: Shared, slice_s: float, patience_s: float) -> float:
    """Return seconds per request during a slice of time; the slice is extended until a request is answered.

    Raises CaseError.
    """
    before, since = sum(shared.calls), time.perf_counter()
    while True:
        time.sleep(slice_s)
        done, now = sum(shared.calls), time.perf_counter()
        failed = next((code for code in shared.errors if code), 0)
        if failed:
            raise CaseError("crashed", f"a request to the file system failed: {os.strerror(failed)}")
        if done > before:
            return (now - since) / (done - before)
        if now - since > patience_s:
            raise CaseError("timeout", f"the file system answered no request within {patience_s:.0f} s")


def counters(count: int) -> memoryview:
    """Return whole numbers, initially zero, that processes share; each number has one writer."""
    return memoryview(mmap.mmap(-1, 8 * count)).cast("Q")


class Shared:
    """The readers' counters: answered requests and bytes by reader, and an error number by process."""

    def __init__(self, readers: int, processes: int) -> None:
        self.calls, self.bytes, self.errors, self.stop = (
            counters(readers),
            counters(readers),
            counters(processes),
            counters(1),
        )


def fork_readers(work: Work, readers: range, shared: Shared, process: int) -> int:
    """Start a process with one thread per reader, and return the id of the process.

    Each thread repeats its request until it is stopped.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with_parent(parent)

        def repeat(reader: int) -> None:
            try:
                request = work(reader)
                while not shared.stop[0]:
                    shared.bytes[reader] += request()
                    shared.calls[reader] += 1
            except OSError as error:
                shared.errors[process] = error.errno or errno.EIO

        threads = [threading.Thread(target=repeat, args=(reader,)) for reader in readers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        shared.errors[process] = errno.EAGAIN  # too many threads or processes
    finally:
        os._exit(0)
