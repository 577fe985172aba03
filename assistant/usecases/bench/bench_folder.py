"""The private folder of a run: requests, answers and logs. What a killed run left is removed by the next
one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from probes.base.errors import WorkerError

_PREFIX = "rigtune-bench-"
_LOCK = "lock"
"""Held as long as the run lives. The kernel drops it with the process, whatever ends that; numbers of
processes come again, and mean something else in another container that shares the folder for temporary files.
"""


class WorkFolder:
    """The folder, and whether it is to stay for the user to look at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep = False


@contextlib.contextmanager
def work_folder(chosen: str | None) -> Iterator[WorkFolder]:
    """The folder that the user chose, made where it is missing, or a temporary one, which goes at the end
    unless it is to stay.

    Raises WorkerError where it cannot be made or written to.
    """
    if chosen is not None:
        folder = WorkFolder(Path(chosen).absolute())
        _try_to_write(folder.path, "choose another work folder")
        yield folder
        return
    remove_leftovers()
    try:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX)).absolute()
    except OSError as error:
        raise WorkerError(
            f"cannot make a temporary folder: {error.strerror}", "set TMPDIR to a folder that is yours"
        ) from error
    folder = WorkFolder(path)
    with _locked(path / _LOCK):
        try:
            _try_to_write(path, "free some space there, or set TMPDIR to another folder")
            yield folder
        finally:
            if folder.keep:
                with contextlib.suppress(OSError):
                    (path / _LOCK).unlink()  # from now on nobody removes it but the user
            else:
                shutil.rmtree(path, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the temporary folders whose runs are dead; never one that lives, or that was to stay."""
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if _is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """True where the lock is there and nobody holds it. A link is no lock: the folder for temporary files is
    everybody's.
    """
    try:
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return False
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock, which has its name only once it is held. A file system without locks leaves none: nobody
    cleans up there.
    """
    unnamed = path.with_suffix(".new")
    try:
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _cannot_write(
            path.parent, error, "free some space there, or set TMPDIR to another folder"
        ) from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(path)
        yield
    finally:
        os.close(descriptor)


def _try_to_write(folder: Path, hint: str) -> None:
    probe = folder / "writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"yes\n")
        probe.unlink()
    except OSError as error:
        raise _cannot_write(folder, error, hint) from error


def _cannot_write(folder: Path, error: OSError, hint: str) -> WorkerError:
    return WorkerError(f"cannot write to {folder}: {error.strerror}", hint)
