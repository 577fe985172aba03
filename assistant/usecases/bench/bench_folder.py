"""Create the private folder in which a run stores requests, answers and logs.

If a run was killed, the next run removes its folder.
"""

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
"""Name of the lock file, which is locked until the run ends.

The kernel releases the lock when the process ends, in any way. Process ids cannot replace the lock, because
ids are reused. In another container with the same temporary folder, the ids belong to other processes.
"""


class WorkFolder:
    """The folder, and whether it is kept after the run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep = False


@contextlib.contextmanager
def work_folder(chosen: str | None) -> Iterator[WorkFolder]:
    """Create the folder `chosen`, or a temporary folder that is removed at the end unless `keep` is set.

    Raises WorkerError if the folder cannot be created or written to.
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
            f"cannot make a temporary folder: {error.strerror}", "set TMPDIR to a folder of your own"
        ) from error
    folder = WorkFolder(path)
    with _locked(path / _LOCK):
        try:
            _try_to_write(path, "free some space there, or set TMPDIR to another folder")
            yield folder
        finally:
            if folder.keep:
                with contextlib.suppress(OSError):
                    (path / _LOCK).unlink()  # without a lock file, only the user removes the folder
            else:
                shutil.rmtree(path, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the temporary folders of runs that were killed, but not folders that should be kept."""
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if _is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """Return whether the lock file exists and no process holds the lock.

    Symbolic links are not followed: everybody can write to the folder for temporary files.
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
    """Hold the lock within the `with` block; the file gets its final name only after it is locked.

    On a file system without locks no lock file is written, and no later run removes the folder.
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
