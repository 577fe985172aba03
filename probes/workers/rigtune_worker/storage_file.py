"""Open the file that the storage benchmark reads: an existing file, or a temporary file without a name.

The kernel removes a file without a name as soon as no process has it open.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import tempfile
import time
from typing import Any, Iterator, NamedTuple

from .protocol import SetupError
from .rank_conditions import text_of

MIB = 1024**2
BLOCK = MIB
LEAST_BYTES = 64 * MIB
"""Smallest file size, in bytes; the caches of many disks and controllers are smaller."""
SHARE_OF_FREE = 0.05
"""Largest share of the free space that the file may use, so that no other program runs out of space."""
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
"""File systems in memory, which may accept O_DIRECT (tmpfs since Linux 6.6) without reading a disk."""
SMALL_FILE_BYTES = 4 * MIB
FEWEST_FILES = 64
"""Minimum number of files in a dataset of small files."""
SCAN_S = 2.0
MOST_ENTRIES = 20_000
FULL = (errno.ENOSPC, errno.EDQUOT)


class DataFile(NamedTuple):
    """An open file with data in it."""

    fd: int
    size_bytes: int
    """Size in whole blocks."""
    direct: bool
    """True if reads bypass the page cache (O_DIRECT)."""
    own: bool
    """True for a temporary file, which may be written."""


class Mount(NamedTuple):
    point: str
    file_system: str
    """The kernel's name for the type of the file system: ext4, xfs, nfs4, lustre ..."""
    device: str


def open_data(path: str, size_bytes: int, budget_s: float) -> DataFile:
    """Return the file `path`; for a folder, a temporary file of about `size_bytes`. Raises SetupError.

    The file is written within `budget_s`. If nothing can be written, the largest existing file is used.
    """
    if not os.path.exists(path):
        raise SetupError(f"there is no file or folder {path}")
    if not os.path.isdir(path):
        return existing_file(path)
    try:
        return own_file(path, size_bytes, budget_s)
    except SetupError as error:
        largest = largest_file(path)
        if not largest:
            raise SetupError(
                f"{error}; and no file of at least {LEAST_BYTES // MIB} MiB exists there"
            ) from None
        return existing_file(largest)


def existing_file(path: str) -> DataFile:
    """Return a file of the user, opened for reading only. Raises SetupError."""
    try:
        # Without the flag a pipe would wait for a writer; files ignore it (open(2)).
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror}") from error
    status = os.fstat(fd)
    size_bytes = status.st_size // BLOCK * BLOCK
    try:
        if not stat.S_ISREG(status.st_mode):
            raise SetupError(f"{path} is not a regular file")
        if size_bytes < LEAST_BYTES:
            raise SetupError(
                f"{path} has {status.st_size} bytes; measuring a disk needs a file of at least "
                f"{LEAST_BYTES // MIB} MiB"
            )
        # Some file systems count no blocks for compressed or delayed data. A file with half of its blocks is
        # not sparse.
        if status.st_blocks and status.st_blocks * 512 < status.st_size // 2:
            raise SetupError(f"{path} is mostly sparse: its holes are not read from the disk")
    except SetupError:
        os.close(fd)
        raise
    return DataFile(fd, size_bytes, use_direct(fd, mount_of(path)), own=False)


def own_file(folder: str, size_bytes: int, budget_s: float) -> DataFile:
    """Return a new file without a name in `folder`, with incompressible data.

    Its size is the number of bytes that are written within `budget_s`, at least 64 MiB. Raises SetupError.
    """
    space = os.statvfs(folder)
    free_bytes = space.f_bavail * space.f_frsize
    size_bytes = min(size_bytes, int(free_bytes * SHARE_OF_FREE)) // BLOCK * BLOCK
    if size_bytes < LEAST_BYTES:
        raise SetupError(
            f"{folder} has {free_bytes // MIB} MiB free: reading needs a file of {LEAST_BYTES // MIB} MiB "
            f"in at most {SHARE_OF_FREE:.0%} of the free space"
        )
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="rigtune-", buffering=0) as file:
            fd = os.dup(file.fileno())
    except OSError as error:
        raise SetupError(f"cannot write in {folder}: {error.strerror}") from error
    direct = use_direct(fd, mount_of(folder))
    try:
        written = fill(fd, size_bytes, time.monotonic() + budget_s)
        os.fsync(fd)
    except OSError as error:
        os.close(fd)
        raise SetupError(f"cannot write {size_bytes // MIB} MiB in {folder}: {error.strerror}") from error
    return DataFile(fd, written, direct, own=True)


def fill(fd: int, size_bytes: int, ends: float) -> int:
    """Write blocks until the size or the time is reached, at least 64 MiB; return the bytes written."""
    block = random_block()
    written = 0
    while written < size_bytes and (written < LEAST_BYTES or time.monotonic() < ends):
        vary(block)
        try:
            count = os.pwrite(fd, block, written)
        except OSError as error:
            if error.errno in FULL and written >= LEAST_BYTES:
                break
            raise
        if count < BLOCK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += count
        if written % (16 * BLOCK) == 0:
            # Otherwise the page cache would accept all data at once, and writing to the disk would exceed the
            # time.
            os.fdatasync(fd)
    return written


def random_block(size_bytes: int = BLOCK) -> mmap.mmap:
    """Return incompressible data on a page boundary, as O_DIRECT requires."""
    block = mmap.mmap(-1, size_bytes)
    block.write(os.urandom(size_bytes))
    return block


def vary(block: mmap.mmap) -> None:
    """Change every 4 KiB of the block, so that file systems cannot merge equal blocks."""
    memoryview(block)[::4096] = os.urandom(len(block) // 4096)


def use_direct(fd: int, mount: Mount) -> bool:
    """Switch O_DIRECT on and try it; return False if this file system does not support it."""
    if mount.file_system in IN_MEMORY:
        return False
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT)
        os.preadv(fd, [mmap.mmap(-1, BLOCK)], 0)
    except OSError:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        return False
    return True


def files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield regular files in and below the folder, up to a limit of time and entries; do not follow links."""
    ends, entries, folders = time.monotonic() + SCAN_S, 0, [folder]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as children:
            for entry in children:
                entries += 1
                if entries > MOST_ENTRIES or time.monotonic() > ends:
                    return
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry


def largest_file(folder: str) -> str:
    """Return the largest file that is large enough to read; empty if no file is large enough."""
    sizes = {entry.path: entry.stat(follow_symlinks=False).st_size for entry in files_below(folder)}
    path = max(sizes, key=sizes.__getitem__, default="")
    return path if sizes.get(path, 0) >= LEAST_BYTES else ""


def small_files(folder: str) -> list[str]:
    """Return the files of a dataset that are read whole; none if `folder` has too few or is not a folder."""
    paths = [
        entry.path
        for entry in (files_below(folder) if os.path.isdir(folder) else ())
        if 0 < entry.stat(follow_symlinks=False).st_size <= SMALL_FILE_BYTES
    ]
    return paths if len(paths) >= FEWEST_FILES else []


def mount_of(path: str) -> Mount:
    """Return the mount with `path`: the longest mount point above the path; among equally long mount points,
    the last.

    Source: proc(5), mountinfo.
    """
    real, best = os.path.realpath(path), Mount("", "", "")
    for line in text_of("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        point, kind = unescaped(before.split()[4]), after.split()
        above = real == point or real.startswith(point.rstrip("/") + "/")
        if above and len(point) >= len(best.point):
            best = Mount(point, kind[0], unescaped(kind[1]))
    return best


def unescaped(text: str) -> str:
    """Return a path with the kernel's octal codes for space, tab, newline and backslash decoded."""
    for code in ("040", "011", "012", "134"):
        text = text.replace("\\" + code, chr(int(code, 8)))
    return text


def conditions_of(data: DataFile, path: str) -> dict[str, Any]:
    """Return the conditions that describe the file system, the device and the file."""
    mount = mount_of(path)
    conditions: dict[str, Any] = {
        "file_system": mount.file_system or "unknown",
        "storage_device": mount.device or "unknown",
        "mount_point": mount.point or "unknown",
        "data_path": path,
        "file_bytes": data.size_bytes,
        "own_file": data.own,
    }
    device = os.fstat(data.fd).st_dev
    base = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    # A partition has only the second path, which describes the partition's disk.
    flag = text_of(base + "/queue/rotational") or text_of(base + "/../queue/rotational")
    return {**conditions, "rotational": flag == "1"} if flag else conditions
